"""Which jobs somebody looks for, and the way on which a store finds them.

A listing walks along one index, in its order, and tests each job on the way. It never looks at more than a budget of jobs:
what it answers then is short, and says from where to go on. The way depends on the wish alone, so that all stores list in
the same order:

* jobs named by their ids, members of a group and jobs of a schedule: along those;
* nothing but ended jobs: along the time of their end;
* nothing but living jobs: among the newest, then in the indexes of the living;
* anything else: along the numbers, which is the order in which jobs came.

Everything but the listing of ended jobs is in the order of the numbers. Times of creation rise with the numbers as far as
the clocks of those who enqueue agree: a listing by time trusts that no job lies further than `SLACK` others from where it
belongs.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from msgspec import Struct

from windlass.core.eligibility import label_of
from windlass.core.failures import error_of, fingerprint, is_like, may_be_fingerprint
from windlass.core.fields import (
    BATCH_LIMIT,
    LARGEST,
    check_flag,
    check_id,
    check_limit,
    check_name,
    check_number,
    check_one_of,
)
from windlass.core.queries import Query
from windlass.errors import InvalidInput, shown
from windlass.types import ACTIVE, LABELS, TERMINAL, DeadKind, Job, Label, Micros, State

Path = Literal["ids", "group", "schedule", "ended", "living", "all"]
Direction = Literal["newest", "oldest"]

BUDGET: Final = 50_000  # jobs that one search looks at
DIRECTIONS: Final = frozenset(get_args(Direction))
DEAD_KINDS: Final = frozenset(get_args(DeadKind))
SLACK: Final = 10_000
TEXT_LIMIT: Final = 1_000
FIRST_SAID: Final = -62_135_683_200_000_000  # what a datetime can say in any time zone: the years 1 to 9999, and a day
LAST_SAID: Final = 253_402_387_199_999_999
LATEST_END: Final = 2**61  # of a job, in any store
STATE_OF: Final[dict[Label, State]] = {
    "queued": "queued", "scheduled": "queued", "blocked": "queued", "parked": "queued", "claimed": "running",
    "running": "running", "succeeded": "succeeded", "dead": "dead", "cancelled": "cancelled",
}  # fmt: skip


class Kind(Struct, frozen=True):
    """A label, and where more is asked for: how it died, or whether it was cancelled while it ran."""

    label: Label
    dead_kind: DeadKind | None = None
    ran: bool | None = None


class Wish(Struct, frozen=True, kw_only=True):
    """Which jobs. What is empty or None does not matter; of several values of one field each will do. Times: from a
    moment on, and before a moment."""

    now: Micros  # labels depend on it
    ids: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    queues: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    org_id: str | None = None
    tag: str | None = None
    group_id: str | None = None
    schedule_id: str | None = None
    worker_id: str | None = None  # who runs it, or ran it last
    created_from: Micros | None = None
    created_until: Micros | None = None
    finished_from: Micros | None = None
    finished_until: Micros | None = None
    failed_from: Micros | None = None  # of its last failure
    quiet_since: Micros | None = None  # ended, or else created, at this moment or before
    error: str | None = None  # a part of the last error's text, or its fingerprint
    fingerprint: str | None = None  # of the last error, and nothing else
    superseded: bool = False  # also rows that a later link of their chain took over


class Place(Struct, frozen=True):
    """Where a walk has come to. `at` is the end of a job, on the way along the ends."""

    at: Micros | None
    seq: int


class Listed(Struct, frozen=True, kw_only=True):
    """A part of a listing. `after`: go on from here; None = that was all. `looked_at`: how many jobs were tested. Fewer
    jobs than asked for, and an `after`: the budget was used up."""

    jobs: tuple[Job, ...]
    after: Place | None
    looked_at: int


class Glimpse(Struct, frozen=True, kw_only=True, gc=False):
    """The part of a job that tells it from others. `updated_at` serves as its revision."""

    id: str
    type: str
    queue: str
    state: State
    at: Micros  # when it ended, or failed last, or was created
    updated_at: Micros
    error: str  # the beginning


class Glimpsed(Struct, frozen=True, kw_only=True):
    jobs: tuple[Glimpse, ...]
    after: Place | None
    looked_at: int


class Tally(Struct, frozen=True, kw_only=True):
    """How many were found. `complete`: there are no others; else there are at least so many."""

    jobs: int
    complete: bool
    looked_at: int


class ListJobs(Query[Listed], frozen=True, kw_only=True):
    """Jobs like a wish, in the order of its way, newest or oldest first: one answer. All answers to the end hold every such
    job once."""

    wish: Wish
    first: Direction = "newest"
    after: Place | None = None
    limit: int = 50
    budget: int = BUDGET


class GlimpseJobs(Query[Glimpsed], frozen=True, kw_only=True):
    """`ListJobs` with a `Glimpse` of each job."""

    wish: Wish
    first: Direction = "newest"
    after: Place | None = None
    limit: int = 50
    budget: int = BUDGET


class TallyJobs(Query[Tally], frozen=True, kw_only=True):
    """How many jobs are like a wish, as far as the budget reaches: one answer."""

    wish: Wish
    budget: int = BUDGET


Search = ListJobs | GlimpseJobs


def states_of(wish: Wish) -> frozenset[State]:
    """The states that may be meant; all of them are none."""
    states = frozenset(STATE_OF[kind.label] for kind in wish.kinds)
    if wish.finished_from is None and wish.finished_until is None:
        return states
    return states & TERMINAL if states else TERMINAL


def path_of(wish: Wish) -> Path:
    if wish.ids:
        return "ids"
    if wish.group_id is not None:
        return "group"
    if wish.schedule_id is not None:
        return "schedule"
    states = states_of(wish)
    if not states and wish.kinds:
        return "ids"  # a living job has no end: nothing can be like this
    if states and states <= TERMINAL:
        return "ended"
    return "living" if states and states <= ACTIVE else "all"


def place_of(job: Job, path: Path) -> Place:
    return Place(job.finished_at if path == "ended" else None, job.seq)


def order_of(place: Place) -> tuple[int, int]:
    return (place.at or 0, place.seq)


def is_wished(job: Job, wish: Wish) -> bool:
    return (
        (not wish.ids or job.id in wish.ids)
        and (not wish.kinds or any(is_kind(job, kind, wish.now) for kind in wish.kinds))
        and (not wish.queues or job.queue in wish.queues)
        and (not wish.types or job.type in wish.types)
        and wish.org_id in (None, job.org_id)
        and (wish.tag is None or wish.tag in job.tags)
        and wish.group_id in (None, job.group_id)
        and wish.schedule_id in (None, job.schedule_id)
        and wish.worker_id in (None, job.worker_id)
        and is_within(job.created_at, wish.created_from, wish.created_until)
        and is_within(job.finished_at, wish.finished_from, wish.finished_until)
        and is_within(job.failed_at, wish.failed_from, None)
        and (wish.quiet_since is None or (job.finished_at or job.created_at) <= wish.quiet_since)
        and (wish.error is None or is_like(error_of(job), wish.error))
        and (wish.fingerprint is None or fingerprint(error_of(job)) == wish.fingerprint)
        and (wish.superseded or job.dead_kind != "superseded")
    )


def is_kind(job: Job, kind: Kind, now: Micros) -> bool:
    return (
        label_of(job, now) == kind.label
        and kind.dead_kind in (None, job.dead_kind)
        and (kind.ran is None or kind.ran == (job.last_outcome == "cancelled"))
    )


def is_within(at: Micros | None, begin: Micros | None, end: Micros | None) -> bool:
    if begin is None and end is None:
        return True
    return at is not None and (begin is None or at >= begin) and (end is None or at < end)


def is_past(wish: Wish, first: Direction, earliest: Micros, latest: Micros) -> bool:
    """Whether a whole stretch of jobs that were created in this time tells that no later one on the way is wanted."""
    if first == "newest":
        return wish.created_from is not None and latest < wish.created_from
    return wish.created_until is not None and earliest >= wish.created_until


# ------------------------------------------------------------------------------------------------------------- admission


def check_search(query: ListJobs | GlimpseJobs | TallyJobs) -> None:
    check_wish(query.wish)
    if type(query.budget) is not int or not 1 <= query.budget <= LARGEST:
        raise InvalidInput("budget", f"must be at least 1, got {shown(query.budget)}")
    if not isinstance(query, TallyJobs):
        check_limit(query.limit)
        check_one_of("first", query.first, DIRECTIONS)
        if query.after is not None:
            check_place(query.after)


def check_place(place: object) -> None:
    if not isinstance(place, Place):
        raise InvalidInput("after", f"must be the place that an answer names, got {shown(place)}")
    check_number("after", place.seq)
    if place.at is not None and (type(place.at) is not int or not -LATEST_END < place.at < LATEST_END):
        raise InvalidInput("after", f"must be at the end of a job, in microseconds since 1970, got {shown(place.at)}")


def check_wish(wish: object) -> None:
    if not isinstance(wish, Wish):
        raise InvalidInput("wish", f"must be a Wish, which says what jobs are meant, got {shown(wish)}")
    for field in ("ids", "kinds", "queues", "types"):
        values: object = getattr(wish, field)
        if not isinstance(values, tuple | list):  # a text is a sequence of characters
            raise InvalidInput(field, f"must be a sequence, got {shown(values)}")
    if len(wish.ids) > BATCH_LIMIT:
        raise InvalidInput("ids", f"are {len(wish.ids):,}, the limit is {BATCH_LIMIT:,}")
    for job_id in wish.ids:
        check_id(job_id)
    for kind in wish.kinds:
        check_kind(kind)
    for field in ("queues", "types"):
        for name in getattr(wish, field):
            check_name(field.removesuffix("s"), name)
    for field in ("org_id", "tag", "group_id", "schedule_id", "worker_id"):
        if getattr(wish, field) is not None:
            check_name(field, getattr(wish, field))
    check_said("now", wish.now)
    for field in ("created_from", "created_until", "finished_from", "finished_until", "failed_from", "quiet_since"):
        if getattr(wish, field) is not None:
            check_said(field, getattr(wish, field))
    if wish.error is not None:
        check_part_of_text("error", wish.error)
    digits: object = wish.fingerprint
    if digits is not None and not (isinstance(digits, str) and may_be_fingerprint(digits)):
        raise InvalidInput("fingerprint", f"must be eight hexadecimal digits, got {shown(digits)}")
    check_flag("superseded", wish.superseded)


def check_kind(kind: object) -> None:
    if not isinstance(kind, Kind):
        raise InvalidInput("kinds", f"must be of Kind, a label and what is asked for beyond it, got {shown(kind)}")
    check_one_of("label", kind.label, frozenset(LABELS))
    if kind.dead_kind is not None:
        check_one_of("dead_kind", kind.dead_kind, DEAD_KINDS)
    if kind.ran is not None:
        check_flag("ran", kind.ran)


def check_said(field: str, at: object) -> None:
    if type(at) is not int or not FIRST_SAID <= at <= LAST_SAID:
        raise InvalidInput(field, f"must be microseconds since 1970, got {shown(at)}")


def check_part_of_text(field: str, text: object) -> None:
    if not isinstance(text, str) or not text:
        raise InvalidInput(field, "must be text and not empty")
    if len(text) > TEXT_LIMIT:
        raise InvalidInput(field, f"is {len(text):,} characters long, the limit is {TEXT_LIMIT:,}")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise InvalidInput(field, f"{text!r} holds characters that no error can hold")
