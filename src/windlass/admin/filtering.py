"""Which jobs a person means: states, labels and other systems' words become a wish that a store can look for."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from windlass.admin.views import Filter
from windlass.client import Client
from windlass.clock import LONGEST, instant
from windlass.core.fields import check_characters
from windlass.core.listing import Kind, Wish
from windlass.core.queries import AllSchedules
from windlass.errors import InvalidInput, shown
from windlass.types import LABELS, STATES, Job, Label, Micros, RunStatus, State
from windlass.words import DEAD_KINDS, did_you_mean, states_of, words_of

TEXTS: Final = (
    "state", "system", "label", "queue", "type", "org_id", "tag", "group_id", "schedule", "worker_id", "error",
    "fingerprint",
)  # fmt: skip
LABELS_OF: Final[dict[State, tuple[Label, ...]]] = {
    "queued": ("queued", "scheduled", "blocked", "parked"),
    "running": ("claimed", "running"),
    "succeeded": ("succeeded",),
    "dead": ("dead",),
    "cancelled": ("cancelled",),
}


def check_filter(wanted: object) -> None:
    """Whether it can be asked for at all. What a store looks for, it checks itself."""
    if not isinstance(wanted, Filter):
        raise InvalidInput("filter", f"must be a Filter, got {shown(wanted)}")
    for field in TEXTS:
        if getattr(wanted, field) is not None:
            check_characters(field, getattr(wanted, field))
    for field in ("queues", "ids"):
        names: object = getattr(wanted, field)
        if not isinstance(names, tuple | list):  # a text is a sequence of characters
            raise InvalidInput(field, f"must be a tuple of texts, got {shown(names)}")
        for name in names:
            check_characters(field, name)
    age: object = wanted.older_than
    if age is not None and (type(age) is not int or not 0 <= age <= LONGEST):
        raise InvalidInput(
            "older_than",
            f"must be microseconds, a thousand years of them at most (an hour is 3_600_000_000), got {shown(age)}",
        )


async def compiled(client: Client, wanted: Filter, now: Micros) -> Wish:
    check_filter(wanted)
    return Wish(
        now=now, ids=wanted.ids, kinds=kinds_of(wanted), queues=_queues(wanted),
        types=() if wanted.type is None else (wanted.type,), org_id=wanted.org_id, tag=wanted.tag,
        group_id=wanted.group_id, schedule_id=await _schedule(client, wanted.schedule), worker_id=wanted.worker_id,
        created_from=_instant("created_from", wanted.created_from),
        created_until=_instant("created_until", wanted.created_until),
        finished_from=_instant("finished_from", wanted.finished_from),
        finished_until=_instant("finished_until", wanted.finished_until), error=wanted.error,
        fingerprint=wanted.fingerprint, quiet_since=None if wanted.older_than is None else now - wanted.older_than,
    )  # fmt: skip


def kinds_of(wanted: Filter) -> tuple[Kind, ...]:
    """None: anything."""
    kinds = _by_word(wanted)
    if wanted.label is None:
        return kinds
    if wanted.label not in LABELS:
        raise InvalidInput("label", f"{shown(wanted.label)} is not a label; use one of {', '.join(LABELS)}")
    if not kinds:
        return (Kind(wanted.label),)
    both = tuple(kind for kind in kinds if kind.label == wanted.label)
    if not both:
        raise InvalidInput("label", f"no job is {wanted.state!r} and {wanted.label!r} at once")
    return both


def _by_word(wanted: Filter) -> tuple[Kind, ...]:
    word, system = wanted.state, wanted.system
    if word is None:
        return ()
    if system is not None and word not in STATES and word not in LABELS:
        return _by_other_word(word, wanted)
    if word in LABELS_OF:
        return tuple(Kind(label) for label in LABELS_OF[word])
    if word in LABELS:
        return (Kind(word),)
    known = tuple(dict.fromkeys((*STATES, *LABELS)))
    hint = did_you_mean(word, known)
    raise InvalidInput("state", f"{shown(word)} is not a state{hint}; use one of {', '.join(known)}")


def _by_other_word(word: str, wanted: Filter) -> tuple[Kind, ...]:
    assert wanted.system is not None
    states_of(word, wanted.system)  # a word that the system does not have is refused
    found: list[Kind] = []
    for label in LABELS:
        for kind in _varieties(label):
            words = words_of(label, kind.dead_kind, wanted.system, "skipped" if kind.ran else None)
            if word in (words.state, words.run):
                found.append(kind)
    return tuple(found)


def _varieties(label: Label) -> tuple[Kind, ...]:
    """What a system may have different words for."""
    if label == "dead":
        return tuple(Kind(label, dead_kind) for dead_kind in DEAD_KINDS if dead_kind != "superseded")
    return (Kind(label, ran=True), Kind(label, ran=False)) if label == "cancelled" else (Kind(label),)


def _queues(wanted: Filter) -> tuple[str, ...]:
    """Both together: what is in both."""
    if wanted.queue is None:
        return wanted.queues
    if wanted.queues and wanted.queue not in wanted.queues:
        raise InvalidInput("queue", f"{shown(wanted.queue)} is none of the queues that you may look at")
    return (wanted.queue,)


async def _schedule(client: Client, name: str | None) -> str | None:
    """A schedule by its name; anything else is taken as an id, also that of a schedule which is gone."""
    if name is None:
        return None
    rows = await client.driver.read(AllSchedules())
    return next((row.schedule_id for row in rows if row.name == name), name)


def _instant(field: str, at: datetime | None) -> Micros | None:
    return None if at is None else instant(at, field=field)


def last_run_of(job: Job) -> RunStatus | None:
    """How its last run ended, as far as the row tells; only a cancelled job leaves it open otherwise."""
    return "skipped" if job.state == "cancelled" and job.last_outcome == "cancelled" else None
