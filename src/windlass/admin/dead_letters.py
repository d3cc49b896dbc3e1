"""Dead letters in bulk: grouped by what killed them, replayed, purged; and what fails at present. Always bounded, and each
row by its own guard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from windlass.admin.bulk import BITE, How, bulk
from windlass.admin.filtering import compiled
from windlass.admin.showing import scrub_of
from windlass.admin.views import Filter
from windlass.client import Client
from windlass.clock import moment
from windlass.core.failures import fingerprint
from windlass.core.listing import Glimpse, GlimpseJobs, Kind
from windlass.redaction import redact_text
from windlass.types import Micros

GROUPED: Final = 10_000
RECENT: Final = 2_000  # that died, and that will be tried again
BARS: Final = 24
By = Literal["error", "type"]


class ErrorGroup(Struct, frozen=True, kw_only=True):
    """Jobs that failed of the same thing, but for numbers, ids and quoted text."""

    fingerprint: str  # or the type, in groups by type
    error: str  # of the youngest
    jobs: int
    types: tuple[str, ...]
    queues: tuple[str, ...]
    first_at: datetime
    last_at: datetime
    example: str
    retrying: int = 0  # of these jobs so many will be tried again
    bars: tuple[int, ...] = ()  # how many in each part of the time from the first to the last of all groups


class ErrorGroups(Struct, frozen=True, kw_only=True):
    groups: tuple[ErrorGroup, ...]
    looked_at: int
    complete: bool  # False: only the youngest were looked at, and every number means "at least"


class Swept(Struct, frozen=True):
    """What was done to dead letters: `done` of those that matched, and why the `left` ones were left alone."""

    done: tuple[str, ...]
    left: dict[str, str] = {}
    cursor: str | None = None  # there are more that match


def only_dead(wanted: Filter) -> Filter:
    return replace(wanted, state="dead")


async def grouped(client: Client, wanted: Filter, by: By = "error") -> ErrorGroups:
    wish = await compiled(client, only_dead(wanted), client.now())
    [found] = await client.driver.read(GlimpseJobs(wish=wish, limit=GROUPED))
    groups = await scrubbed(client, groups_of(found.jobs, by))
    return ErrorGroups(groups=groups, looked_at=len(found.jobs), complete=found.after is None)


async def failures(client: Client, since: Micros, wanted: Filter) -> ErrorGroups:
    """What died since then, and what failed since then and waits to be tried again."""
    now = client.now()
    wish = await compiled(client, replace(wanted, state=None, label=None), now)
    died = replace(wish, kinds=(Kind("dead"),), finished_from=since)
    [dead] = await client.driver.read(GlimpseJobs(wish=died, limit=RECENT))
    again = replace(wish, kinds=(Kind("queued"), Kind("scheduled")), failed_from=since)
    [waiting] = await client.driver.read(GlimpseJobs(wish=again, limit=RECENT, budget=5 * RECENT))
    jobs = [*dead.jobs, *waiting.jobs]
    groups = await scrubbed(client, groups_of(jobs))
    return ErrorGroups(groups=groups, looked_at=len(jobs), complete=dead.after is None and waiting.after is None)


async def scrubbed(client: Client, groups: tuple[ErrorGroup, ...]) -> tuple[ErrorGroup, ...]:
    """Without what the job that stands for its group keeps secret."""
    found: list[ErrorGroup] = []
    for start in range(0, len(groups), BITE):
        bite = groups[start : start + BITE]
        jobs = await client.driver.get([group.example for group in bite])
        found += [
            replace(group, error=redact_text(group.error) if job is None else scrub_of(job)(group.error))
            for group, job in zip(bite, jobs, strict=True)
        ]
    return tuple(found)


def groups_of(jobs: Sequence[Glimpse], by: By = "error") -> tuple[ErrorGroup, ...]:
    groups: dict[str, list[Glimpse]] = {}
    marks: dict[str, str] = {}  # many jobs say exactly the same
    for job in jobs:
        if by == "type":
            groups.setdefault(job.type, []).append(job)
            continue
        if job.error not in marks:
            marks[job.error] = fingerprint(job.error)
        groups.setdefault(marks[job.error], []).append(job)
    begin, end = min((job.at for job in jobs), default=0), max((job.at for job in jobs), default=0)
    views = [_group(key, members, begin, end) for key, members in groups.items()]
    return tuple(sorted(views, key=lambda group: (-group.jobs, group.fingerprint)))


def _group(key: str, jobs: list[Glimpse], begin: Micros, end: Micros) -> ErrorGroup:
    last = max(jobs, key=lambda job: job.at)
    return ErrorGroup(
        fingerprint=key, error=last.error, jobs=len(jobs), types=tuple(sorted({job.type for job in jobs})),
        queues=tuple(sorted({job.queue for job in jobs})), first_at=moment(min(job.at for job in jobs)),
        last_at=moment(last.at), example=last.id, retrying=sum(job.state == "queued" for job in jobs),
        bars=bars((job.at for job in jobs), begin, end),
    )  # fmt: skip


def bars(times: Iterable[Micros], begin: Micros, end: Micros) -> tuple[int, ...]:
    counts = [0] * BARS
    width = max(end - begin, 1) / BARS
    for at in times:
        counts[min(int((at - begin) / width), BARS - 1)] += 1
    return tuple(counts)


async def replay(client: Client, wanted: Filter, limit: int, cursor: str | None = None) -> Swept:
    done = await bulk(client, "retry", only_dead(wanted), how=How(), dry_run=False, limit=limit, cursor=cursor)
    return Swept(done.done, done.left, done.cursor)


async def purge(client: Client, wanted: Filter, limit: int, cursor: str | None = None) -> Swept:
    done = await bulk(client, "delete", only_dead(wanted), how=How(), dry_run=False, limit=limit, cursor=cursor)
    return Swept(done.done, done.left, done.cursor)
