"""Moving all that a store holds to another: which tables, column by column; how far a copy is; what comes next.

A row is the same value on every store: instants are microseconds, flags 0 or 1, JSON is written in one way. So rows of two
stores can be compared, and a digest of them is a digest of what they mean.

The *source* decides. It is `draining` (no more claims), then `moved` (no more writes), then `handed` over, each by one
change of one row that holds only if nobody else has changed it; until it is handed over the copy can be given up. The
*target* is `receiving` (nobody but the copier writes), then `opened`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from windlass.types import Micros

Kind = Literal["int", "instant", "flag", "text", "json", "real", "blob"]
Phase = Literal["draining", "moved", "handed", "receiving", "opened"]
Row = tuple[Any, ...]

OUT: Final = "copy_out"  # the names under which a store keeps how far it is, as a source
IN: Final = "copy_in"  # and as a target
SAYS: Final = "copy_says"  # what everybody is told who is refused
MOVED: Final = "this store has moved to "  # what refuses a write says this, and where to
BUSY: Final = "this store is being "
OTHER_COPIER: Final = "another copier has taken over, or the copy was given up; look with --dry-run"
FRESH: Final[Micros] = 15_000_000  # a copier that was not heard of for so long is gone


class Table(Struct, frozen=True):
    """`columns` begin with those of the key, by which rows are read in one order. `counted`: the key comes from a sequence,
    which goes on where it was. `only`: of the rows, those with these keys."""

    name: str
    key: tuple[str, ...]
    columns: tuple[tuple[str, Kind], ...]
    counted: bool = False
    only: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        return tuple(kind for _, kind in self.columns)

    @property
    def key_kinds(self) -> tuple[Kind, ...]:
        return self.kinds[: len(self.key)]

    def key_of(self, row: Row) -> Row:
        return row[: len(self.key)]


def _table(
    name: str, key: str, *, ints: str = "", instants: str = "", flags: str = "", texts: str = "", jsons: str = "",
    reals: str = "", blobs: str = "", counted: bool = False, only: str = "",
) -> Table:  # fmt: skip
    kinds: dict[str, Kind] = {}
    given: list[tuple[Kind, str]] = [
        ("int", ints), ("instant", instants), ("flag", flags), ("text", texts), ("json", jsons), ("real", reals),
        ("blob", blobs),
    ]  # fmt: skip
    for kind, names in given:
        kinds.update(dict.fromkeys(names.split(), kind))
    keys = tuple(key.split())
    rest = [column for column in kinds if column not in keys]
    return Table(name, keys, tuple((column, kinds[column]) for column in (*keys, *rest)), counted, tuple(only.split()))


_KINDS_OF_RUNS: Final = "org_id queue type outcome"
_SUMS: Final = "runs run_us wait_us cpu_us peak_rss"

# In an order in which each row finds those that it refers to.
TABLES: Final[tuple[Table, ...]] = (
    _table("queues", "name", texts="name positions fairness preset settings turning",
           instants="paused_at created_at updated_at", ints="age_after age_to"),
    _table("limits", "key", texts="key declared", ints="used max_used", reals="tokens burst per_second weight",
           instants="refilled_at wake_at paused_at"),
    _table("shares", "queue share", texts="queue share", reals="started finish"),
    _table("groups", "group_id", texts="group_id name mode on_failure", instants="created_at finished_at",
           ints="total remaining succeeded failed cancelled kept_by"),
    _table("templates", "template_id version", texts="template_id name type queue settings", ints="version", blobs="params",
           instants="archived_at created_at"),
    _table("schedules", "schedule_id", blobs="param_overrides", flags="enabled", ints="catch_up_cap jitter",
           texts="schedule_id template_id name cron_expression timezone catch_up overlap declared",
           instants="declared_at last_triggered_at next_trigger_at created_at updated_at"),
    _table("jobs", "seq", counted=True, flags="ready awaited manual", jsons="limit_keys permits tags headers",
           ints="seq priority position timeout_ns attempts executions skipped lost max_attempts max_lost template_version "
                "group_seq waiting_on",
           texts="id queue type org_id state lease_token worker_id last_token last_outcome dead_kind dead_reason "
                 "retry_mode crash_policy on_unknown history retry_policy idempotency_scope idempotency_key dedupe_key "
                 "template_id schedule_id group_id after_rule parked_on share retry_of superseded_by "
                 "progress_note codec last_error",
           instants="created_at queued_at updated_at run_at lease_expires_at claimed_at started_at finished_at failed_at "
                    "dead_at fire_at aged_at cancel_requested_at",
           reals="progress", blobs="result payload"),
    _table("runs", "job_seq attempt_no", jsons="artifacts", blobs="params",
           ints="job_seq attempt_no template_version wait_us cpu_us peak_rss exit_code",
           texts="run_id worker_id org_id queue type template_id status log_path error traceback",
           instants="claimed_at started_at finished_at"),
    _table("dependencies", "parent_id job_seq", texts="parent_id rule", ints="job_seq", flags="done"),
    _table("idempotency_keys", "scope key", texts="scope key job_id", instants="expires_at"),
    _table("reservations", "reservation_id", texts="reservation_id queue reserved_by status outcome",
           instants="reserved_at granted_at expires_at ended_at"),
    _table("webhooks", "webhook_id", texts="webhook_id url secret org_id old_secret disabled_reason", jsons="events",
           flags="enabled", instants="created_at old_until"),
    _table("outbox", "event_id", counted=True, ints="event_id", texts="event job_id org_id body",
           instants="created_at fanned_at"),
    _table("deliveries", "event_id webhook_id", ints="event_id attempts", texts="webhook_id status response log",
           instants="next_attempt_at finished_at", flags="taken"),
    _table("usage_batches", "batch_id", counted=True, ints=f"batch_id {_SUMS}", texts=_KINDS_OF_RUNS,
           instants="at"),
    _table("usage_hourly", "hour org_id queue type outcome", instants="hour", texts=_KINDS_OF_RUNS, ints=_SUMS),
    _table("usage_daily", "day org_id queue type outcome", instants="day", texts=_KINDS_OF_RUNS, ints=_SUMS),
    _table("queue_stats", "minute queue", instants="minute", texts="queue", jsons="depth finished waits runs",
           ints="oldest"),
    _table("api_tokens", "token_id", texts="token_id name org_id", jsons="scopes queues", blobs="digest",
           instants="expires_at last_used_at revoked_at created_at"),
    _table("audit", "audit_id", counted=True, ints="audit_id count", instants="at",
           texts="actor action subject detail org_id selection"),
    _table("meta", "key", texts="key value", only="usage_days usage_watermark"),
)  # fmt: skip

LEFT: Final[Mapping[str, str]] = {
    "workers": "who works on the target registers there",
    "leader": "the target elects its own",
    "migrations": "the target has the schema of its own kind of store",
    "barrier": "holds no rows",
}
# A column that one kind of store has beside those above, and why it needs no copy.
DERIVED: Final[Mapping[tuple[str, str], str]] = {("deliveries", "event_at"): "the event's created_at"}

GUARDED: Final = (*(table.name for table in TABLES if table.name != "meta"), "workers", "leader")


# ------------------------------------------------------------------------------------------------------------- rows


def canonical(table: Table, rows: Iterable[Row]) -> list[Row]:
    """Rows as the store gave them, with JSON written in the one way."""
    places = [place for place, kind in enumerate(table.kinds) if kind == "json"]
    if not places:
        return list(rows)
    done = []
    for row in rows:
        if any(row[place] is not None for place in places):
            values = list(row)
            for place in places:
                values[place] = plain_json(values[place])
            row = tuple(values)
        done.append(row)
    return done


def plain_json(text: str | None) -> str | None:
    return None if text is None else msgspec.json.encode(msgspec.json.decode(text), order="sorted").decode()


def weight(rows: Sequence[Row]) -> int:
    """Bytes, roughly."""
    return sum(len(value) if isinstance(value, str | bytes) else 8 for row in rows for value in row)


class Digest:
    """Of rows in the order of their key: how many, and what is in them."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.rows = 0

    def add(self, rows: Sequence[Row]) -> None:
        self.rows += len(rows)
        for row in rows:
            self._hash.update(msgspec.msgpack.encode(row))

    @property
    def text(self) -> str:
        return self._hash.hexdigest()


# ------------------------------------------------------------------------------------------------------------- marks


class Mark(Struct, frozen=True, kw_only=True):
    """What a store keeps of the copy that it takes part in. `other`, `other_id`: the store at the other end, for people and
    for certain. `owner`: the process that copies, `seen_at`: when it last said so; by the clock of the source."""

    copy_id: str
    phase: Phase
    other: str
    other_id: str
    owner: str = ""
    seen_at: Micros = 0


def encoded(mark: Mark | None) -> str | None:
    return None if mark is None else msgspec.json.encode(mark).decode()


def decoded(text: str | None) -> Mark | None:
    return None if text is None else msgspec.json.decode(text, type=Mark)


def is_fresh(mark: Mark, now: Micros) -> bool:
    """Whether its copier may still be at work, as far as the row tells."""
    return bool(mark.owner) and now - mark.seen_at < FRESH


def paused_because(other: str) -> str:
    return f"{BUSY}moved to {other}: its jobs are waited for, and none is claimed"


def filled_because(other: str) -> str:
    return f"{BUSY}filled from {other}: nobody else writes before that is done"


Step = Literal["begin", "receive", "clear", "drain", "copy", "open", "done"]


class Refusal(Struct, frozen=True):
    """Why a copier may not go on."""

    why: str


def next_step(source: Mark | None, target: Mark | None, target_id: str, source_id: str) -> Step | Refusal:
    """What a copier does next, by what both stores say."""
    if target is not None and target.phase == "receiving" and target.other_id != source_id:
        return Refusal(f"the target is being filled from another store ({target.other})")
    if source is None:
        return "begin"
    if source.other_id != target_id:
        word = "has moved to" if source.phase == "handed" else "is being moved to"
        return Refusal(f"the source {word} another store: {source.other}")
    ours = target if target is not None and target.copy_id == source.copy_id else None
    if source.phase == "handed":
        if ours is None:
            return Refusal("the source was handed over, and the target knows nothing of it: is it the same store?")
        return "done" if ours.phase == "opened" else "open"
    if source.phase == "moved":
        if ours is None:
            return Refusal("the target was emptied or replaced since the copy began; give it up with --back")
        return "copy"
    if ours is not None:
        return "drain"
    return "clear" if target is not None and target.phase == "receiving" else "receive"
