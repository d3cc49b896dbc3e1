"""Rows ⇄ values. The column order of every `select` is the field order of the value it makes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from windlass.core.limits import keys_of
from windlass.core.queries import Seen
from windlass.core.rows import run_id_of
from windlass.drivers.statement import Row
from windlass.records import ApiToken, Delivery, Event, QueueSample, Try, Webhook, WorkerInfo
from windlass.types import Claimed, Dependency, Handle, Job, MemberCount, RetryMode, Run, Schedule, State

T = TypeVar("T")
D = TypeVar("D")

_encode = msgspec.json.Encoder().encode
_strings = msgspec.json.Decoder(tuple[str, ...]).decode
_mapping = msgspec.json.Decoder(dict[str, str]).decode
_numbers = msgspec.json.Decoder(dict[str, int]).decode
_tries = msgspec.json.Decoder(list[tuple[int, int, int | None, str | None]]).decode
_histogram = msgspec.json.Decoder(dict[int, int]).decode

# Places of the columns that are stored as json, or on SQLite as 0/1.
_FIELDS = list(Job.__struct_fields__)
_READY, _MANUAL, _AWAITED = _FIELDS.index("ready"), _FIELDS.index("manual"), _FIELDS.index("awaited")
_HISTORY = _FIELDS.index("history")
_LISTS, _HEADERS = [_FIELDS.index(name) for name in ("limit_keys", "permits", "tags")], _FIELDS.index("headers")
EXECUTIONS = list(Claimed.__struct_fields__).index("executions") - list(Claimed.__struct_fields__).index("id") + 1
LEAN = "lean"  # in a handle, at its third place: a success of this job leaves no run row
LIMITED = "limited"  # in a handle, last: the lease holds permits, so that its end is more than one statement
_ARTIFACTS = Run.__struct_fields__.index("artifacts")


def is_limited(handle: Handle) -> bool:
    """Whether the claim that made it took permits."""
    return type(handle) is tuple and handle[-1] == LIMITED


def is_lean(handle: Handle) -> bool:
    """Whether the claim that made it wrote no run row."""
    return len(handle) > 2 and bool(handle[2] == LEAN)


def history_out(history: str) -> str | None:
    """Stored where it is not the usual."""
    return None if history == "full" else history


def to_json(value: Any) -> str:
    return _encode(value).decode()


def strings_out(values: tuple[str, ...]) -> str | None:
    return to_json(values) if values else None


def mapping_out(values: dict[str, str] | None) -> str | None:
    return to_json(values) if values else None


def strings_in(text: str | None) -> tuple[str, ...]:
    if not text:
        return ()
    try:
        return _strings(text)
    except msgspec.DecodeError:
        said = _by_hand(text)
        return tuple(map(_whole, said)) if isinstance(said, list) else ()


def mapping_in(text: str | None) -> dict[str, str]:
    if not text:
        return {}
    try:
        return _mapping(text)
    except msgspec.DecodeError:
        said = _by_hand(text)
        return {_whole(name): _whole(value) for name, value in said.items()} if isinstance(said, dict) else {}


def note_in(text: str, kind: type[T]) -> T | None:
    """How far a duty has come, as it noted it. None where this version cannot read it: then it begins anew, as if there
    were no note. A duty that ends there ends all that a leader does."""
    return _or(None, lambda: msgspec.json.decode(text, type=kind))


def _by_hand(text: str) -> object:
    """None where it is not even JSON: in such a column nothing is said."""
    return _or(None, lambda: json.loads(text))


def _or(otherwise: D, read: Callable[[], T]) -> T | D:
    """Rows beside the jobs may hold what a hand or a newer version wrote. Whoever reads it reads that of others too."""
    try:
        return read()
    except (ValueError, RecursionError):  # of which those of msgspec and json are kinds
        return otherwise


def _whole(value: object) -> str:
    """Half a character, which JSON can say and UTF-8 cannot, becomes a question mark: a row that somebody wrote by hand
    must not keep a claim or a list from all the others. Nor must what is no text."""
    return (value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "replace").decode()


def limits_of(row: Sequence[Any]) -> tuple[str, ...]:
    """The keys on which a job may be parked, from its limit keys, type, org and tags."""
    return keys_of(strings_in(row[0]), row[1], row[2], strings_in(row[3]))


def job_in(row: Row) -> Job:
    values = list(row)
    values[_READY], values[_MANUAL] = bool(values[_READY]), bool(values[_MANUAL])
    values[_AWAITED] = bool(values[_AWAITED])
    values[_HISTORY] = values[_HISTORY] or "full"
    for place in _LISTS:
        values[place] = strings_in(values[place])
    values[_HEADERS] = mapping_in(values[_HEADERS])
    return Job(**dict(zip(_FIELDS, values, strict=True)))


def run_in(row: Row) -> Run:
    values = list(row)
    values[_ARTIFACTS] = strings_in(values[_ARTIFACTS])
    return Run(**dict(zip(Run.__struct_fields__, values, strict=True)))


def worker_in(row: Row) -> WorkerInfo:
    fields = dict(zip(WorkerInfo.__struct_fields__, row, strict=True))
    queues, types = strings_in(fields.pop("queues")), strings_in(fields.pop("types"))
    return WorkerInfo(queues=queues, types=types, is_leader=bool(fields.pop("is_leader")), **fields)


def schedule_in(row: Row) -> Schedule:
    fields = dict(zip(Schedule.__struct_fields__, row, strict=True))
    return Schedule(enabled=bool(fields.pop("enabled")), **fields)


def webhook_in(row: Row) -> Webhook:
    fields = dict(zip(Webhook.__struct_fields__, row, strict=True))
    return Webhook(events=strings_in(fields.pop("events")), enabled=bool(fields.pop("enabled")), **fields)


def token_in(row: Row) -> ApiToken:
    fields = dict(zip(ApiToken.__struct_fields__, row, strict=True))
    scopes, queues = strings_in(fields.pop("scopes")), fields.pop("queues")
    return ApiToken(scopes=scopes, queues=None if queues is None else strings_in(queues), **fields)


def event_in(row: Row) -> Event:
    return Event(**dict(zip(Event.__struct_fields__, row, strict=True)))


def delivery_in(row: Row) -> Delivery:
    fields = dict(zip(Delivery.__struct_fields__, row, strict=True))
    text = fields.pop("log")
    tries = _or([], lambda: _tries(text or "[]"))
    return Delivery(taken=bool(fields.pop("taken")), log=tuple(Try(*one) for one in tries), **fields)


def dependency_in(row: Row) -> Dependency:
    return Dependency(job_id=row[0], parent_id=row[1], rule=row[2], done=bool(row[3]))


def member_count_in(row: Row) -> MemberCount:
    return MemberCount(group_id=row[0], state=row[1], begun=bool(row[2]), jobs=row[3])


def sample_in(row: Row) -> QueueSample:
    queue, minute, depth, oldest, finished, waits, runs = row
    none = dict[Any, int]()
    return QueueSample(
        queue=queue, minute=minute, depth=_or(none, lambda: _numbers(depth)), oldest=oldest,
        finished=_or(none, lambda: _numbers(finished)), waits=_or(none, lambda: _histogram(waits)),
        runs=_or(none, lambda: _histogram(runs)),
    )  # fmt: skip


def seen_in(row: Row) -> Seen:
    queue, kind, org_id, worker_id, tags = row
    return Seen(queue, kind, org_id, worker_id, strings_in(tags))


def claimed_in(row: Row, run_id: str, token: str, claimed_at: int, expires_at: int) -> Claimed:
    """A claimed job from the columns of `picked` and `undecided`: seq, the fields of Claimed in their order (the last
    ones are json), then the history."""
    headers, permits, history = row[-3:]
    decoded = (mapping_in(headers), strings_in(permits))
    handle = (row[0], row[EXECUTIONS], *((LEAN,) if history else ()), *((LIMITED,) if permits else ()))
    return Claimed(handle, run_id, token, claimed_at, expires_at, *(row[1:-3] + decoded))


def undecided_in(row: Row) -> Claimed:
    """With run id, token and times at the end. A run of which no row is kept is named as its claim did."""
    run_id, token, claimed_at, expires_at = row[-4:]
    return claimed_in(row[:-4], run_id or run_id_of(token, claimed_at, row[0]), token, claimed_at, expires_at)


def all_claimed_in(
    rows: list[Row], prefix: str, token: str, claimed_at: int, expires_at: int, *, first: int = 0
) -> list[Claimed]:
    """`claimed_in` for a whole claim whose rows begin at column `first`, without a call for each plain row: this is the
    hottest Python of a driver."""
    place, rest = first + EXECUTIONS, first + 1
    return [
        Claimed(
            (row[first], row[place]) if row[-1] is None else (row[first], row[place], LEAN), f"{prefix}{row[first]:012x}",
            token, claimed_at, expires_at, *row[rest:-3],
        )
        if row[-2] is None and row[-3] is None
        else claimed_in(row[first:], f"{prefix}{row[first]:012x}", token, claimed_at, expires_at)
        for row in rows
    ]  # fmt: skip


class Guard(msgspec.Struct, frozen=True, gc=False):
    """The columns that `core.guards.judge` and `core.settle.honour_cancel` look at, and whether others wait for the job."""

    seq: int
    state: State
    lease_token: str | None
    lease_expires_at: int | None
    last_token: str | None
    last_outcome: str | None
    retry_mode: RetryMode
    cancel_requested_at: int | None
    group_id: str | None
    permits: str | None
    id: str
    awaited: bool
    claimed_at: int | None
