"""Pages of jobs, and cursors between them. A cursor names a place in one listing, and is refused by every other."""

from __future__ import annotations

import binascii
import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from windlass.admin.filtering import compiled, last_run_of
from windlass.admin.showing import looked_through
from windlass.admin.views import Filter, JobList, JobView, job_view
from windlass.client import Client
from windlass.clock import instant, moment
from windlass.core.fields import check_one_of
from windlass.core.listing import BUDGET, DIRECTIONS, Direction, ListJobs, Place, Tally, TallyJobs, path_of, place_of
from windlass.core.queries import AllQueues, AllWorkers, SeenLately
from windlass.errors import InvalidInput
from windlass.holds import check_queue
from windlass.types import Job, Micros

DRY: Final = 100_000  # jobs that a count looks at
NAMES: Final = 200  # of one kind that are offered


class Cursor(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    listing: bytes  # which one: a digest of its filter and direction
    back: bool
    at: Micros | None
    seq: int


class Matching(Struct, frozen=True, kw_only=True):
    """How many jobs match. Not `exact`: at least so many, because only `looked_at` jobs were looked at."""

    jobs: int
    exact: bool
    looked_at: int


class Completions(Struct, frozen=True, kw_only=True):
    """Names to choose from: those declared or registered, and those of the newest jobs."""

    queues: tuple[str, ...]
    types: tuple[str, ...]
    orgs: tuple[str, ...]
    tags: tuple[str, ...]
    workers: tuple[str, ...]


async def page(
    client: Client, wanted: Filter, limit: int, cursor: str | None, first: Direction, reveal: bool = False
) -> JobList:  # fmt: skip
    now = client.now()
    wish = await compiled(client, wanted, now)
    check_one_of("first", first, DIRECTIONS)
    here = None if cursor is None else opened(cursor, wanted, first)
    back = here is not None and here.back
    query = ListJobs(
        wish=wish, first=turned(first) if back else first, limit=limit, budget=BUDGET,
        after=None if here is None else Place(here.at, here.seq),
    )  # fmt: skip
    [found] = await client.driver.read(query)
    if not found.jobs and found.after is None and wanted.queue is not None:
        await check_queue(client, wanted.queue)
    jobs = found.jobs[::-1] if back else found.jobs
    path = path_of(wish)

    def sealed(place: Place, *, back: bool) -> str:
        return text_of(Cursor(digest_of(wanted, first), back, place.at, place.seq))

    def beside(job: Job, *, back: bool) -> str:
        return sealed(place_of(job, path), back=back)

    ahead = sealed(found.after, back=back) if found.after is not None else None
    behind = beside(found.jobs[0], back=not back) if found.jobs and here is not None else None

    def views() -> tuple[JobView, ...]:
        return tuple(job_view(job, now, wanted.system, last_run_of(job), reveal=reveal, brief=True) for job in jobs)

    return JobList(
        at=moment(now), jobs=await looked_through(jobs, views),
        cursor=behind if back else ahead, back=ahead if back else behind, looked_at=found.looked_at,
        stopped=found.after is not None and len(jobs) < limit,
    )  # fmt: skip


async def count(client: Client, wanted: Filter, budget: int = DRY) -> Matching:
    wish = await compiled(client, wanted, client.now())
    [found] = await client.driver.read(TallyJobs(wish=wish, budget=budget))
    return matching(found)


def matching(found: Tally) -> Matching:
    return Matching(jobs=found.jobs, exact=found.complete, looked_at=found.looked_at)


async def completions(client: Client) -> Completions:
    driver = client.driver
    seen = await driver.read(SeenLately())
    workers = await driver.read(AllWorkers())
    queues = {queue.name for queue in await driver.read(AllQueues())} | {one.queue for one in seen}
    types = {one.type for one in seen}.union(*(worker.types for worker in workers))
    return Completions(
        queues=_first(queues), types=_first(types), orgs=_first({one.org_id for one in seen if one.org_id is not None}),
        tags=_first({tag for one in seen for tag in one.tags}),
        workers=_first({worker.id for worker in workers} | {one.worker_id for one in seen if one.worker_id is not None}),
    )  # fmt: skip


def _first(names: set[str]) -> tuple[str, ...]:
    return tuple(sorted(names)[:NAMES])


# --------------------------------------------------------------------------------------------------------------- cursors


def turned(first: Direction) -> Direction:
    return "oldest" if first == "newest" else "newest"


def digest_of(wanted: Filter, way: str) -> bytes:
    """Of a filter that was compiled, and so checked, and one of a few words. Moments as they are stored: one at the end of
    the calendar has no UTC that could be written."""
    said = [instant(part) if isinstance(part, datetime) else part for part in astuple(wanted)]
    return hashlib.blake2b(msgspec.msgpack.encode((said, way)), digest_size=6).digest()


def text_of(cursor: Cursor) -> str:
    return urlsafe_b64encode(msgspec.msgpack.encode(cursor)).rstrip(b"=").decode()


def opened(text: str, wanted: Filter, way: str) -> Cursor:
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        cursor = msgspec.msgpack.decode(urlsafe_b64decode(padded), type=Cursor)
    except (UnicodeEncodeError, binascii.Error, msgspec.DecodeError, RecursionError):
        raise InvalidInput("cursor", f"{text!r:.60} is not a cursor; take it from the page before, as it is") from None
    if cursor.listing != digest_of(wanted, way):
        raise InvalidInput("cursor", "belongs to another listing; begin this one without a cursor")
    if not 0 <= cursor.seq < 2**63 or not (cursor.at is None or abs(cursor.at) < 2**61):
        raise InvalidInput("cursor", "names no place; take it from the page before, as it is")
    return cursor
