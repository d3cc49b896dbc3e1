"""Listings: stretch by stretch along the way, until the page is full, the way ends, or the budget is used up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from windlass.core.listing import (
    BUDGET,
    SLACK,
    Direction,
    Glimpse,
    Glimpsed,
    GlimpseJobs,
    Listed,
    ListJobs,
    Path,
    Place,
    Tally,
    TallyJobs,
    Wish,
    is_past,
    path_of,
)
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.walking import Show, Walk
from windlass.drivers.rows import job_in
from windlass.drivers.statement import Op, Row, Statement

NEAR: Final = 2_000  # jobs that are looked through before the indexes of the living
STRETCH: Final = 2_000  # jobs in one statement: of more PostgreSQL may believe that reading the whole table is cheaper
SIZES: Final = (200, 1_000)  # of the first stretches


class Found(Struct):
    """What a search has gathered so far. With `ended`, or if `after` is None, there is no more."""

    rows: list[Row]
    number: int = 0
    looked_at: int = 0
    after: Place | None = None
    ended: bool = False
    past: int = 0  # jobs in a row that lie behind the time of creation that is asked for


def look(db: Dialect, query: ListJobs | GlimpseJobs | TallyJobs) -> Op[list[Any]]:
    if isinstance(query, TallyJobs):
        found = yield from search(db, query.wish, "newest", None, None, query.budget, "nothing")
        return [Tally(jobs=found.number, complete=found.ended, looked_at=found.looked_at)]
    show: Show = "numbers" if isinstance(query, ListJobs) else "glimpses"
    found = yield from search(db, query.wish, query.first, query.after, query.limit, query.budget, show)
    after = found.after
    if len(found.rows) > query.limit:
        found.rows = found.rows[: query.limit]
        after = place_in(found.rows[-1], path_of(query.wish))
    if isinstance(query, GlimpseJobs):
        glimpses = (Glimpse(**dict(zip(Glimpse.__struct_fields__, row[7:14], strict=True))) for row in found.rows)
        return [Glimpsed(jobs=tuple(glimpses), after=after, looked_at=found.looked_at)]
    seqs = [row[1] for row in found.rows]
    jobs = {row[0]: job_in(row) for row in (yield by_number(db, seqs))} if seqs else {}
    return [Listed(jobs=tuple(jobs[seq] for seq in seqs if seq in jobs), after=after, looked_at=found.looked_at)]


def search(
    db: Dialect, wish: Wish, first: Direction, after: Place | None, limit: int | None, budget: int, show: Show
) -> Op[Found]:  # fmt: skip
    """Gather one job more than the limit, to know whether there is another. Without a limit all are counted."""
    walk, path = Walk(db, wish, first), path_of(wish)
    found = Found([], after=after)
    if path == "living":
        yield from on(walk, "all", found, wish, first, limit, show, iter([min(NEAR, budget)]))
        if found.ended or is_full(found, limit):
            return found
        [(living,)] = yield walk.living(BUDGET)
        if living <= BUDGET:
            stretches = sizes(max(budget, NEAR + 1), found, few=True, limit=limit)
            yield from on(walk, path, found, wish, first, limit, show, stretches)
            return found
        path = "all"
    elif path == "all" and after is None:
        found.after = yield from beginning(db, wish, first)
    few = path in ("ids", "group")
    yield from on(walk, path, found, wish, first, limit, show, sizes(budget, found, few=few, limit=limit))
    return found


def sizes(budget: int, found: Found, *, few: bool = False, limit: int | None = None) -> Iterator[int]:
    """Small stretches first: most pages are full after the first one. `few`: each stretch reads the whole of an index, so
    that there should not be many, and none that cannot hold the page."""
    small = iter([size for size in SIZES[-1:] if limit is not None and limit < size] if few else SIZES)
    while found.looked_at < budget:
        yield min(next(small, BUDGET if few else STRETCH), budget - found.looked_at)


def on(
    walk: Walk, path: Path, found: Found, wish: Wish, first: Direction, limit: int | None, show: Show,
    stretches: Iterator[int],
) -> Op[None]:  # fmt: skip
    """Go on along a way."""
    for jobs in stretches:
        want = jobs if limit is None or walk.judged else limit + 1 - len(found.rows)
        counted: Show = "numbers" if show == "nothing" and walk.judged else show
        rows = yield walk.stretch(path, found.after, jobs, want, counted)
        if not rows:
            found.after, found.ended = None, True
            return
        [place] = [row for row in rows if row[0] == 1]
        hits = sorted((row for row in rows if row[0] == 0), key=lambda row: in_order(row, path), reverse=first == "newest")
        if walk.judged:
            hits = [row for row in hits if walk.is_like(row[-2], row[-1])]
        _, _, _, looked_at, wanted, earliest, latest, *_ = place
        found.looked_at += looked_at
        found.number += len(hits) if walk.judged else wanted
        found.rows += hits if limit is not None else []
        found.after = place_in(place, path)
        found.past = found.past + looked_at if is_past(wish, first, earliest, latest) else 0
        if looked_at < jobs or (path == "all" and found.past >= SLACK):
            found.after, found.ended = None, True
            return
        if is_full(found, limit):
            return


def is_full(found: Found, limit: int | None) -> bool:
    return limit is not None and len(found.rows) > limit


def in_order(row: Row, path: Path) -> tuple[int, int]:
    return (row[2] if path == "ended" else 0, row[1])


def place_in(row: Row, path: Path) -> Place:
    return Place(row[2] if path == "ended" else None, row[1])


def by_number(db: Dialect, seqs: list[int]) -> Statement:
    whole = db.sql.get_jobs.sql
    columns = whole.split(" where ")[0].rstrip()
    return Statement(f"{columns} where {db.tongue.numbers.format('seq', f'{db.tongue.mark}1')}", [db.ints(seqs)])


def beginning(db: Dialect, wish: Wish, first: Direction) -> Op[Place | None]:
    """Where to begin if the time of creation is bounded on the side from which the walk comes, found by halving the
    numbers."""
    bound = wish.created_until if first == "newest" else wish.created_from
    if bound is None:
        return None
    ends = yield db.sql.number_range()
    low, high = ends[0] if ends else (None, None)
    if low is None or high is None:
        return None
    while high - low > SLACK:
        middle = (low + high) // 2
        [(created,)] = yield db.sql.created_about(seq=middle)
        if created is None:  # they have all been deleted meanwhile
            return None
        low, high = (middle, high) if created < bound else (low, middle)
    return Place(None, high + SLACK if first == "newest" else low - SLACK)
