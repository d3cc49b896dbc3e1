"""One change to many jobs, to named ones or to all that match a filter, in batches, with a count beforehand.

A job is changed only if it still is what it was when it was found to match. If it has changed since, it is looked at
again, and left alone if it does not match any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from windlass.admin.audit import in_words
from windlass.admin.filtering import compiled
from windlass.admin.listing import DRY, Cursor, digest_of, opened, text_of
from windlass.admin.views import Filter
from windlass.client import Client
from windlass.core.alterations import (
    AlterAnswer,
    Cancel,
    Delete,
    Move,
    OfOneJob,
    Replay,
    RunNow,
    SetPriority,
    Unchanged,
)
from windlass.core.listing import Glimpse, GlimpseJobs, Kind, Place, TallyJobs, Wish
from windlass.errors import InvalidInput, shown
from windlass.types import End, Label, Micros

Action = Literal["cancel", "retry", "run-now", "delete", "priority", "move"]

BITE: Final = 200  # jobs in one transaction
MOST: Final = 10_000  # in one call
TRIES: Final = 3  # for a job that others change at the same time
_FOR: Final[dict[Action, tuple[Label, ...]]] = {
    "cancel": ("queued", "scheduled", "blocked", "parked", "claimed", "running"),
    "retry": ("dead",),
    "run-now": ("scheduled",),
    "delete": ("succeeded", "dead", "cancelled"),
    "priority": ("queued", "scheduled", "blocked", "parked"),
    "move": ("queued", "scheduled", "blocked", "parked"),
}
_WHY: Final[dict[AlterAnswer, str]] = {
    "not_found": "it is gone",
    "wrong_state": "its state does not allow it any more",
    "unchanged": "it is so already",
    "duplicate": "another job with its dedupe key is queued or running",
    "changed": "it does not match any more",
    "busy": "others changed it at the same time",
    "referred": "rows of another table refer to it",
}


class How(Struct, frozen=True, kw_only=True):
    """The parameters of a bulk change."""

    reason: str = "cancelled"
    priority: int | None = None
    to: End | None = None


class Bulk(Struct, frozen=True, kw_only=True):
    """What was done, or with `dry_run` what would be. `matched` is the number of matching jobs, or at least that many if
    not `exact`. `done` were changed or asked to stop; `left` were not, with the reasons. Call again with `cursor` to go
    on."""

    action: Action
    dry_run: bool
    matched: int
    exact: bool
    done: tuple[str, ...] = ()
    left: dict[str, str] = {}
    cursor: str | None = None
    looked_at: int = 0


class Progress(Struct, frozen=True):
    done: int
    left: int
    of: int


Report = Callable[[Progress], object]


async def bulk(
    client: Client, action: Action, wanted: Filter, *, how: How, dry_run: bool, limit: int, cursor: str | None = None,
    report: Report | None = None,
) -> Bulk:  # fmt: skip
    check(action, how, limit)
    now = client.now()
    wish = narrowed(await compiled(client, wanted, now), action)
    if dry_run:
        [tally] = await client.driver.read(TallyJobs(wish=wish, budget=DRY))
        return Bulk(
            action=action, dry_run=True, matched=tally.jobs, exact=tally.complete, looked_at=tally.looked_at
        )  # fmt: skip
    here = None if cursor is None else opened(cursor, wanted, action)
    found, after, looked_at = await gathered(client, wish, None if here is None else Place(here.at, here.seq), limit)
    client = client if wanted.ids else client.selecting(in_words(wanted))
    if action != "move" or how.to != "top":
        found.reverse()  # in the order in which they came; what goes to the top is moved last to first
    done, left = await changed(client, wish, found, lambda job_id: alteration(client, action, how, job_id), report)
    for job_id in wish.ids:
        if job_id not in left and all(job.id != job_id for job in found):
            left[job_id] = "there is no such job, or none that this can be done to"
    return Bulk(
        action=action, dry_run=False, matched=len(found), exact=after is None, done=tuple(done), left=left,
        cursor=None if after is None else text_of(Cursor(digest_of(wanted, action), False, after.at, after.seq)),
        looked_at=looked_at,
    )  # fmt: skip


def check(action: str, how: How, limit: int) -> None:
    if action not in _FOR:
        raise InvalidInput("action", f"{shown(action)} is none; use one of {', '.join(_FOR)}")
    if type(limit) is not int or not 1 <= limit <= MOST:
        told = f"must be between 1 and {MOST:,}, got {shown(limit)}"
        raise InvalidInput("limit", f"{told}; go on with the cursor of the answer")
    if action == "priority" and how.priority is None:
        raise InvalidInput("priority", "say which one")
    if action == "move" and how.to is None:
        raise InvalidInput("to", "say top or bottom")


def narrowed(wish: Wish, action: Action) -> Wish:
    """The filter, narrowed to jobs that the action can be applied to."""
    allowed = _FOR[action]
    if not wish.kinds:
        return replace(wish, kinds=tuple(Kind(label) for label in allowed))
    kinds = tuple(kind for kind in wish.kinds if kind.label in allowed)
    if not kinds:
        asked = ", ".join(dict.fromkeys(kind.label for kind in wish.kinds))
        raise InvalidInput("action", f"{action} is for jobs that are {', '.join(allowed)}; the filter asks for {asked}")
    return replace(wish, kinds=kinds)


async def gathered(
    client: Client, wish: Wish, after: Place | None, limit: int
) -> tuple[list[Glimpse], Place | None, int]:  # fmt: skip
    """The newest matching jobs, as far as the budget of one search reaches."""
    [found] = await client.driver.read(GlimpseJobs(wish=wish, after=after, limit=limit))
    return list(found.jobs), found.after, found.looked_at


async def changed(
    client: Client, wish: Wish, found: Sequence[Glimpse], make: Callable[[str], OfOneJob], report: Report | None
) -> tuple[list[str], dict[str, str]]:  # fmt: skip
    done: list[str] = []
    left: dict[str, str] = {}
    for start in range(0, len(found), BITE):
        waiting = {job.id: job.updated_at for job in found[start : start + BITE]}
        for attempt in range(TRIES):
            waiting = await _bite(client, wish, waiting, make, done, left)
            if not waiting:
                break
            if attempt == TRIES - 1:
                left.update(dict.fromkeys(waiting, _WHY["busy"]))
        if report is not None:
            report(Progress(len(done), len(left), len(found)))
    return done, left


async def _bite(
    client: Client, wish: Wish, waiting: dict[str, Micros], make: Callable[[str], OfOneJob], done: list[str],
    left: dict[str, str],
) -> dict[str, Micros]:  # fmt: skip
    """Change these jobs in one transaction. Returns those that somebody else has changed and that still match."""
    changes = [Unchanged(make(job_id), seen) for job_id, seen in waiting.items()]
    answers = await client.driver.alter(changes, now=client.now())
    again: list[str] = []
    for job_id, answer in zip(waiting, answers, strict=True):
        if answer in ("applied", "requested"):
            done.append(job_id)
        elif answer == "changed":
            again.append(job_id)
        else:
            left[job_id] = _WHY.get(answer, answer)
    if not again:
        return {}
    still = replace(wish, ids=tuple(again), now=client.now())
    [found] = await client.driver.read(GlimpseJobs(wish=still, limit=len(again)))
    seen = {job.id: job.updated_at for job in found.jobs}
    left.update({job_id: _WHY["changed"] for job_id in again if job_id not in seen})
    return {job_id: seen[job_id] for job_id in again if job_id in seen}


def alteration(client: Client, action: Action, how: How, job_id: str) -> OfOneJob:
    match action:
        case "cancel":
            return Cancel(job_id, how.reason)
        case "retry":
            return Replay(job_id, client.ids.job(client.now()))
        case "run-now":
            return RunNow(job_id)
        case "delete":
            return Delete(job_id)
        case "priority":
            return SetPriority(job_id, how.priority or 0)
        case "move":
            return Move(job_id, how.to or "bottom")


def those(ids: Sequence[str]) -> Filter:
    if isinstance(ids, str) or not ids:
        raise InvalidInput("ids", "name at least one job, in a list")
    return Filter(ids=tuple(ids))
