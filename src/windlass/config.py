"""Every default of Windlass, in one frozen class. Nothing else has a number of its own.

A setting is given to `Windlass(...)` by name, else taken from the environment as `WINDLASS_<NAME>`, else it is the
default below.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_network
from typing import Any, Final, Literal, TypedDict, cast, get_args

from windlass.clock import SECOND, duration
from windlass.errors import InvalidInput, shown
from windlass.policies import DEFAULT_RETRY, Duration, Retry
from windlass.presets import KeyScope
from windlass.types import History, Micros, OnDuplicate, OnUnknown
from windlass.words import did_you_mean

Durability = Literal["full", "relaxed"]
SqliteLibrary = Literal["apsw", "stdlib"]
Pooler = Literal["none", "transaction"]
Migrate = Literal["empty", "auto", "never"]

DEFAULT_URL: Final = "sqlite:///windlass.db"
NONE: Final = "none"
DAY: Final = 86_400 * SECOND


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Durations are microseconds once they are here; write them as you like in `Windlass(lease="30s")`."""

    lease: Micros = 30 * SECOND  # how long others wait for a silent worker; renewed every third of it
    leader_lease: Micros = 30 * SECOND  # how long others wait for a silent leader; renewed every third of it
    worker_timeout: Micros = 60 * SECOND  # a worker that was silent for so long is removed, and its leases end
    grace: Micros = 30 * SECOND  # how long a stopping worker lets its handlers finish
    poll: Micros = 1 * SECOND  # how often an idle worker looks for work that nobody told it of
    concurrency: int = 20  # async handlers at once
    threads: int = 8  # blocking handlers at once
    children: int = 4  # process handlers and commands at once, each in a process of its own
    child_jobs: int = 1_000  # a child process is replaced after so many jobs
    child_memory: int = 0  # bytes that a child, or a program, may allocate; 0 = no bound
    kill_after: Micros = 5 * SECOND  # a process that was asked to stop has so long before it is killed
    prefetch: int = 2_000  # the most jobs held beyond free slots; the actual number is what slots finish in 20 ms
    max_lost: int = 3  # a job whose workers died this often is dead; 0 = no limit
    retry: Retry = DEFAULT_RETRY  # of tasks that name none: 5 retries after 1, 2, 4, 8, 16 s
    timeout: Micros = 0  # of one execution; 0 = none
    payload_limit: int = 1 << 20  # bytes of arguments
    result_limit: int = 1 << 20  # bytes of a result
    idempotency_scope: KeyScope = "type"  # within what an idempotency key is unique
    on_duplicate: OnDuplicate = "ignore"  # what a second enqueue of an equal job does
    on_unknown: OnUnknown = "wait"  # what becomes of jobs whose task a worker of their queue lacks
    history: History = "full"  # "failures": executions that succeed are counted, and leave no run
    keep_succeeded: Micros = 7 * DAY  # then removed
    keep_cancelled: Micros = 7 * DAY  # then removed
    keep_dead: Micros = 90 * DAY  # then removed
    keep_events: Micros = 7 * DAY  # events and what was sent of them; then removed, by whole days
    keep_usage: Micros = 0  # then removed, by whole months; 0 = for ever
    webhook_networks: str = "none"  # of your own, that may be called, by http too: "10.0.0.0/8, 192.168.7.4"
    webhook_ports: str = "443"  # of public receivers
    webhook_timeout: Micros = 20 * SECOND  # of one attempt, from the first look at the name to the end of the answer
    webhook_concurrency: int = 20  # messages that a worker sends at once, a fifth of them to one; 0 = none
    unhealthy_after: Micros = 300 * SECOND  # a queue in which a job that is due waits for so long is not well
    log_root: str = "auto"  # where runs keep their logs: beside a SQLite file, else ./windlass-logs; "none" = nowhere
    log_limit: int = 1 << 20  # bytes of one run's log: the first half and the last half of it are kept
    key_file: str = (
        "none"  # a key ring: payloads and results are encrypted, and opened again; see docs/guides/encryption.md
    )
    durability: Durability = "full"  # "relaxed": no sync per commit; a power cut may take the last ones
    sqlite: SqliteLibrary = "apsw"  # "stdlib": to share a transaction of your own
    schema: str = "windlass"  # of PostgreSQL, as all that follow but `token`
    pooler: Pooler = "none"  # "transaction": nothing of a session is used, because a pooler shares connections
    migrate: Migrate = "empty"  # at start only an empty schema is made; "auto" also brings an older one up to date
    store_timeout: Micros = 10 * SECOND  # of one call, reconnections and repetitions included
    connections: int = 4  # for enqueues and changes; a worker has six more of its own
    token: str = field(default="none", repr=False)  # of a served store (http:// or https://), where its URL has none

    @property
    def silence(self) -> Micros:
        """How long a worker may be silent before others may take its jobs."""
        return min(self.lease, self.worker_timeout)


class SettingsOptions(TypedDict, total=False):
    """The same, as they are given to `Windlass(...)`."""

    lease: Duration
    leader_lease: Duration
    worker_timeout: Duration
    grace: Duration
    poll: Duration
    concurrency: int
    threads: int
    children: int
    child_jobs: int
    child_memory: int
    kill_after: Duration
    prefetch: int
    max_lost: int
    retry: Retry
    timeout: Duration
    payload_limit: int
    result_limit: int
    idempotency_scope: KeyScope
    on_duplicate: OnDuplicate
    on_unknown: OnUnknown
    history: History
    keep_succeeded: Duration
    keep_cancelled: Duration
    keep_dead: Duration
    keep_events: Duration
    keep_usage: Duration
    webhook_networks: str
    webhook_ports: str
    webhook_timeout: Duration
    webhook_concurrency: int
    unhealthy_after: Duration
    log_root: str
    log_limit: int
    key_file: str
    durability: Durability
    sqlite: SqliteLibrary
    schema: str
    pooler: Pooler
    migrate: Migrate
    store_timeout: Duration
    connections: int
    token: str


_DURATIONS: Final = frozenset({
    "lease", "leader_lease", "worker_timeout", "grace", "poll", "timeout", "keep_succeeded", "keep_cancelled", "keep_dead",
    "store_timeout", "kill_after", "keep_events", "keep_usage", "webhook_timeout", "unhealthy_after",
})  # fmt: skip
MOST: Final = Settings.payload_limit
# The least and the most: what is beyond was never meant, and takes a machine or a server away from everybody.
COUNTS: Final = {
    "concurrency": (1, 10_000), "threads": (1, 1_000), "children": (1, 1_000), "child_jobs": (1, 1_000_000_000),
    "child_memory": (0, 1 << 50), "prefetch": (0, 100_000), "max_lost": (0, 1_000_000), "payload_limit": (2, MOST),
    "result_limit": (2, 1 << 30), "connections": (1, 1_000), "log_limit": (1_024, 1 << 30),
    "webhook_concurrency": (0, 10_000),  # a worker asks for what it will send in one question
    "processes": (1, 1_000),  # of one supervisor
}  # fmt: skip
_SPANS: Final = {
    "poll": (SECOND // 1_000, 365 * DAY),  # a shorter one is a worker that does nothing else
    "timeout": (0, 100 * 365 * DAY),  # a job keeps it in nanoseconds
    "store_timeout": (SECOND // 10, DAY),  # a call may need a new connection; a server takes milliseconds of 31 bits
    "webhook_timeout": (SECOND // 10, DAY),
}
_WHY: Final = {"payload_limit": "; no store takes more, store a reference"}
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "idempotency_scope": get_args(KeyScope),
    "on_duplicate": get_args(OnDuplicate),
    "on_unknown": get_args(OnUnknown),
    "history": get_args(History),
    "durability": get_args(Durability),
    "sqlite": get_args(SqliteLibrary),
    "pooler": get_args(Pooler),
    "migrate": get_args(Migrate),
}
NAMES: Final = tuple(field.name for field in fields(Settings))
SHORTEST_LEASE: Final = SECOND // 10
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{8,1000}")  # what can stand behind `Bearer`
_SCHEMA: Final = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,40}")


def settings_from(given: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """What the caller gave, else the environment, else the defaults. An unknown name is refused with a suggestion."""
    for name in given:
        if name not in NAMES:
            raise InvalidInput(name, f"is not a setting{did_you_mean(name, NAMES)}; known: {', '.join(NAMES)}")
    env = os.environ if environment is None else environment
    found: dict[str, Any] = {}
    for name in NAMES:
        key = f"WINDLASS_{name.upper()}"
        if name in given:
            found[name] = _checked(name, given[name], name)
        elif key in env and name != "retry":
            found[name] = _checked(name, _from_text(name, env[key], key), key)
    settings = replace(Settings(), **found)
    check_leases(settings)
    return settings


def check_leases(settings: Settings) -> None:
    """Each has to be renewed three times as often as it lasts. A leader that is dead must have lost its leadership by the
    time it is removed, or workers that slept (a suspended machine) would wake up and be removed by one that still leads."""
    for name in ("lease", "leader_lease"):
        if getattr(settings, name) < SHORTEST_LEASE:
            raise InvalidInput(name, "must be at least 100 ms: it has to be renewed three times as often")
    if settings.worker_timeout < settings.leader_lease:
        raise InvalidInput(
            "worker_timeout", f"({settings.worker_timeout / SECOND:g} s) must not be shorter than leader_lease "
            f"({settings.leader_lease / SECOND:g} s); shorten both, or lengthen worker_timeout",
        )  # fmt: skip


def check_schema(name: object, field: str = "schema") -> None:
    if not isinstance(name, str) or not _SCHEMA.fullmatch(name):
        raise InvalidInput(
            field, f"must be lower-case letters, digits and _, at most 41 and not beginning with pg_, got {shown(name)}"
        )


def check_networks(text: object, field: str = "webhook_networks") -> None:
    try:
        for part in pieces(text):
            ip_network(part)
    except ValueError:
        raise InvalidInput(field, f"must be networks such as '10.0.0.0/8, 192.168.7.4', got {shown(text)}") from None


def check_ports(text: object, field: str = "webhook_ports") -> None:
    parts = pieces(text)
    if not parts or not all(part.isascii() and part.isdecimal() and 0 < int(part[:6]) < 65_536 for part in parts):
        raise InvalidInput(field, f"must be port numbers such as '443, 8443', got {shown(text)}")


def pieces(text: object) -> list[str]:
    """What stands between the commas; nothing, where it says none."""
    if not isinstance(text, str):
        return ["?"]
    if text == "none":
        return []
    return [part for piece in text.split(",") if (part := piece.strip())]


def _from_text(name: str, text: str, key: str) -> object:
    if name not in COUNTS:
        return text
    try:
        return int(text)
    except ValueError:
        raise _out_of_range(name, text, key) from None


def check_count(name: str, value: object, field: str | None = None) -> None:
    """One of those that are counts of something, wherever it was given."""
    least, most = COUNTS[name]
    if type(value) is not int or not least <= value <= most:
        raise _out_of_range(name, value, field or name)


def _out_of_range(name: str, value: object, field: str) -> InvalidInput:
    least, most = COUNTS[name]
    return InvalidInput(field, f"must be a whole number from {least:,} to {most:,}, got {shown(value)}{_WHY.get(name, '')}")


def checked_span(name: str, value: object, field: str) -> Micros:
    found = duration(cast("Duration", value), field=field)
    least, most = _SPANS.get(name, (0, found))
    if not least <= found <= most:
        raise InvalidInput(field, f"must be from {least / SECOND:g} s to {most / SECOND:,.0f} s, got {shown(value)}")
    return found


def _checked(name: str, value: object, field: str) -> object:
    if name in _DURATIONS:
        return checked_span(name, value, field)
    if name in COUNTS:
        check_count(name, value, field)
    elif name in _CHOICES:
        if value not in _CHOICES[name]:
            raise InvalidInput(field, f"must be one of {', '.join(_CHOICES[name])}, got {shown(value)}")
    elif name == "schema":
        check_schema(value, field)
    elif name == "webhook_networks":
        check_networks(value, field)
    elif name == "webhook_ports":
        check_ports(value, field)
    elif name in ("log_root", "key_file"):
        if not isinstance(value, str) or not value or "\x00" in value:
            what = "a directory, 'auto'" if name == "log_root" else "a file with keys"
            raise InvalidInput(field, f"must be the path of {what} or 'none', got {shown(value)}")
    elif name == "token":
        if not isinstance(value, str) or (value != "none" and not _TOKEN.fullmatch(value)):
            raise InvalidInput(field, "must be an API token, or 'none'")  # and is not shown
    elif not isinstance(value, Retry):
        raise InvalidInput(field, f"must be a windlass.Retry, got {shown(value)}")
    return value
