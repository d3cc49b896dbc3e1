"""Dead letters in bulk: grouped by what killed them, replayed, purged. Always bounded, and each row by its own guard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from windlass.admin.audit import in_words
from windlass.admin.filtering import BITE, error_of, search
from windlass.admin.showing import scrub_of
from windlass.admin.views import ErrorGroup, ErrorGroups, Filter, Swept
from windlass.admin.wording import fingerprint
from windlass.client import Client
from windlass.clock import moment
from windlass.core.alterations import AlterAnswer, Alteration, Delete, Replay
from windlass.types import Job

GROUPED: Final = 10_000
_WHY: Final[dict[AlterAnswer, str]] = {
    "not_found": "it is gone",
    "wrong_state": "it is not dead any more",
    "duplicate": "another job with its dedupe key is queued or running",
}


def only_dead(wanted: Filter) -> Filter:
    return replace(wanted, state="dead")


async def grouped(client: Client, wanted: Filter) -> ErrorGroups:
    found, cursor = await search(client.driver, only_dead(wanted), client.now(), limit=GROUPED)
    groups: dict[str, list[Job]] = {}
    for job in found:
        groups.setdefault(fingerprint(error_of(job)), []).append(job)
    views = [_group(key, jobs) for key, jobs in groups.items()]
    views.sort(key=lambda group: (-group.jobs, group.fingerprint))
    return ErrorGroups(groups=tuple(views), looked_at=len(found), complete=cursor is None)


def _group(key: str, jobs: list[Job]) -> ErrorGroup:
    times = [job.dead_at or job.updated_at for job in jobs]
    return ErrorGroup(
        fingerprint=key, error=scrub_of(jobs[0])(error_of(jobs[0])), jobs=len(jobs),
        types=tuple(sorted({job.type for job in jobs})),
        queues=tuple(sorted({job.queue for job in jobs})), first_at=moment(min(times)), last_at=moment(max(times)),
        example=jobs[0].id,
    )  # fmt: skip


async def replay(client: Client, wanted: Filter, limit: int) -> Swept:
    return await _sweep(client, wanted, limit, lambda job: Replay(job.id, client.ids.job(client.now())))


async def purge(client: Client, wanted: Filter, limit: int) -> Swept:
    return await _sweep(client, wanted, limit, lambda job: Delete(job.id))


async def _sweep(client: Client, wanted: Filter, limit: int, make: Callable[[Job], Alteration]) -> Swept:
    found, _ = await search(client.driver, only_dead(wanted), client.now(), limit=limit)
    found.reverse()
    client = client.selecting(in_words(only_dead(wanted)))
    done: list[str] = []
    left: dict[str, str] = {}
    for start in range(0, len(found), BITE):
        jobs = found[start : start + BITE]
        answers = await client.driver.alter([make(job) for job in jobs], now=client.now())
        for job, answer in zip(jobs, answers, strict=True):
            if answer == "applied":
                done.append(job.id)
            else:
                left[job.id] = _WHY.get(answer, answer)
    return Swept(tuple(done), left)
