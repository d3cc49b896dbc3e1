"""Which jobs a page shows: filters in the address, as chips that can be taken away, and typed as `queue:billing`."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.admin.listing import Completions
from windlass.admin.views import Filter
from windlass.clock import duration, moment
from windlass.errors import shown
from windlass.types import Micros
from windlass.web.pages.formats import query
from windlass.web.pages.shell import Told
from windlass.web.problems import Trouble

FIELDS: Final = ("queue", "type", "org", "tag", "group", "schedule", "worker", "created", "error")
TABS: Final = (
    ("", "All"), ("queued", "Ready"), ("scheduled", "Scheduled"), ("blocked", "Blocked"), ("parked", "Parked"),
    ("running", "Running"), ("succeeded", "Succeeded"), ("dead", "Dead"), ("cancelled", "Cancelled"),
)  # fmt: skip
ENDED: Final = ("succeeded", "dead", "cancelled")
_WORDS: Final = {
    "queue": "in queue {}", "type": "of type {}", "org": "of {}", "tag": "with the tag {}", "group": "of group {}",
    "schedule": "of schedule {}", "worker": "on worker {}", "created": "created in the last {}",
    "error": "with “{}” in its error",
}  # fmt: skip


class Chosen(Told, frozen=True, kw_only=True):
    """The filters by themselves, as a query or as hidden fields of a form."""

    state: str = ""
    queue: str = ""
    type: str = ""
    org: str = ""
    tag: str = ""
    group: str = ""
    schedule: str = ""
    worker: str = ""
    created: str = ""  # for how long: 90s, 1h, 7d
    error: str = ""


class Wanted(Chosen, frozen=True, kw_only=True):
    """The query of a list of jobs. `f` is what somebody typed into the filter field, `q` into the search field."""

    cursor: str = ""
    top: str = ""  # of a live page: its first job
    ids: tuple[str, ...] = ()  # of a live page: its jobs
    f: str = ""
    q: str = ""


class Chip(Struct, frozen=True):
    name: str
    value: str
    without: str  # the address that drops it


def filter_of(chosen: Chosen, now: Micros) -> Filter:
    label: Any = chosen.state if chosen.state != "running" else None  # what a worker has taken runs, for a reader
    return Filter(
        state="running" if chosen.state == "running" else None, label=label or None, queue=chosen.queue or None,
        type=chosen.type or None, org_id=chosen.org or None, tag=chosen.tag or None, group_id=chosen.group or None,
        schedule=chosen.schedule or None, worker_id=chosen.worker or None, error=chosen.error or None,
        created_from=moment(now - duration(chosen.created, field="created")) if chosen.created else None,
    )  # fmt: skip


def address(chosen: Chosen, path: str = "/jobs", **other: Any) -> str:
    """The same list with something else about it; its pages begin anew."""
    pairs = {"state": chosen.state, **{name: getattr(chosen, name) for name in FIELDS}, **other}
    return path + query(pairs)


def chips(chosen: Chosen) -> list[Chip]:
    return [Chip(name, value, address(chosen, **{name: ""})) for name in FIELDS if (value := getattr(chosen, name))]


def typed(wanted: Wanted) -> Wanted | None:
    """What the filter field adds; None when nothing was typed. A word without a name is a type."""
    text = wanted.f.strip()
    if not text:
        return None
    name, colon, value = text.partition(":")
    if not colon:
        return replace(wanted, type=text, f="", cursor="")
    name, value = name.strip().lower(), value.strip()
    if name == "state":
        return replace(wanted, f="", cursor="", state=_state(value))
    if name not in FIELDS:
        known = ", ".join(FIELDS)
        raise Trouble(
            422, "invalid-input", f"a filter begins with one of state, {known}, not with {shown(name)}", field="f"
        )
    return replace(wanted, f="", cursor="", **{name: value})


def _state(said: str) -> str:
    """As a tab calls it, or a job: `ready` and `queued` are one."""
    for state, word in TABS:
        if said.lower() in (state, word.lower()):
            return state
    known = ", ".join(word.lower() for _, word in TABS)
    raise Trouble(422, "invalid-input", f"a state is one of {known}, not {shown(said)}", field="f")


def in_words(chosen: Chosen) -> str:
    """`in queue billing, of type mail.send`: what was looked for, for when there is none."""
    parts = [_WORDS[name].format(value) for name in FIELDS if (value := getattr(chosen, name))]
    if chosen.state:
        parts.insert(0, f"that is {dict(TABS).get(chosen.state, chosen.state).lower()}")
    return ", ".join(parts)


def offered(known: Completions) -> list[str]:
    """What the filter field completes to."""
    names = {
        "queue": known.queues, "type": known.types, "org": known.orgs, "tag": known.tags, "worker": known.workers,
        "created": ("1h", "24h", "7d"),
    }  # fmt: skip
    states = [f"state:{word.lower()}" for state, word in TABS if state]
    return states + [f"{name}:{value}" for name, values in names.items() for value in values]
