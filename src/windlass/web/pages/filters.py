"""Which jobs a page shows: filters in the address, as chips that can be taken away, and typed as `queue:billing`."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from windlass.admin.views import Filter
from windlass.web.pages.formats import query
from windlass.web.pages.shell import Told
from windlass.web.problems import Trouble

FIELDS: Final = ("queue", "type", "org", "error")
TABS: Final = (
    ("", "All"), ("queued", "Ready"), ("scheduled", "Scheduled"), ("blocked", "Blocked"), ("parked", "Parked"),
    ("running", "Running"), ("succeeded", "Succeeded"), ("dead", "Dead"), ("cancelled", "Cancelled"),
)  # fmt: skip
ENDED: Final = ("succeeded", "dead", "cancelled")


class Wanted(Told, frozen=True, kw_only=True):
    """The query of a list of jobs. `f` is what somebody typed into the filter field, `q` into the search field."""

    state: str = ""
    queue: str = ""
    type: str = ""
    org: str = ""
    error: str = ""
    cursor: str = ""
    top: str = ""  # of a live page: its first job
    f: str = ""
    q: str = ""


class Chip(Struct, frozen=True):
    name: str
    value: str
    without: str  # the address that drops it


def filter_of(wanted: Wanted) -> Filter:
    return Filter(
        state=wanted.state or None, queue=wanted.queue or None, type=wanted.type or None, org_id=wanted.org or None,
        error=wanted.error or None,
    )  # fmt: skip


def address(wanted: Wanted, path: str = "/jobs", **other: str) -> str:
    """The same list with something else about it; its pages begin anew."""
    pairs = {"state": wanted.state, **{name: getattr(wanted, name) for name in FIELDS}, **other}
    return path + query(pairs)


def chips(wanted: Wanted) -> list[Chip]:
    return [
        Chip(name, value, address(wanted, **{name: ""})) for name in FIELDS if (value := getattr(wanted, name))
    ]  # fmt: skip


def typed(wanted: Wanted) -> Wanted | None:
    """What the filter field adds; None when nothing was typed. A word without a name is a type."""
    text = wanted.f.strip()
    if not text:
        return None
    name, colon, value = text.partition(":")
    if not colon:
        return replace(wanted, type=text, f="", cursor="")
    if name.strip() not in FIELDS:
        raise Trouble(422, "invalid-input", f"a filter begins with one of {', '.join(FIELDS)}, not with {name!r}", field="f")
    return replace(wanted, f="", cursor="", **{name.strip(): value.strip()})


def in_words(wanted: Wanted) -> str:
    """`in billing, of type mail.send`: what was looked for, for when there is none."""
    said = {name: value for name, value in asdict(wanted).items() if name in FIELDS and value}
    words = {"queue": "in queue {}", "type": "of type {}", "org": "of {}", "error": "with “{}” in its error"}
    parts = [words[name].format(value) for name, value in said.items()]
    if wanted.state:
        parts.insert(0, f"that is {dict(TABS).get(wanted.state, wanted.state).lower()}")
    return ", ".join(parts)
