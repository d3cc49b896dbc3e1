"""Changes to the place of a job in its queue. If two jobs are named, both are looked at, so that a refusal can say which
of them is the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from windlass.apart import apart
from windlass.core.alterations import AlterAnswer, Alteration, Move, MoveBeside, SetPriority, Swap
from windlass.errors import InvalidInput, JobNotFound, Refused, shown
from windlass.types import End, Job, Side

if TYPE_CHECKING:
    from windlass.client import Client

PLACED: Final = "only queued jobs have a place"


class Placed:
    """The calls that change the place of a queued job. They raise `Refused` for a job that is not queued."""

    __slots__ = ("_client", "id")

    def __init__(self, client: Client, job_id: str) -> None:
        self.id: Final = job_id
        self._client = client

    async def move(self, to: End) -> None:
        """Move the job to the `top` or the `bottom` of the queued jobs with its queue and priority."""
        await self._client.alter_head(self.id, lambda head: Move(head, to), "moved", PLACED)

    def move_sync(self, to: End) -> None:
        """The blocking form of `move`."""
        apart(lambda: self.move(to))

    async def move_beside(self, other: Placed | str, side: Side, *, take_priority: bool = False) -> None:
        """Move the job directly `before` or `after` another queued job of its queue. If that has another priority,
        `take_priority=True` is needed, and the job takes it over."""
        await alter_pair(
            self._client, self.id, _id_of(other), lambda a, b: MoveBeside(a, b, side, take_priority), "moved"
        )  # fmt: skip

    def move_beside_sync(self, other: Placed | str, side: Side, *, take_priority: bool = False) -> None:
        """The blocking form of `move_beside`."""
        apart(lambda: self.move_beside(other, side, take_priority=take_priority))

    async def swap(self, other: Placed | str) -> None:
        """Exchange the places of this job and another queued one with the same queue and priority."""
        await alter_pair(self._client, self.id, _id_of(other), Swap, "swapped")

    def swap_sync(self, other: Placed | str) -> None:
        """The blocking form of `swap`."""
        apart(lambda: self.swap(other))

    async def set_priority(self, priority: int) -> None:
        """Set another priority. The job becomes the last of the queued jobs that have it."""
        await self._client.alter_head(self.id, lambda head: SetPriority(head, priority), "given a priority", PLACED)

    def set_priority_sync(self, priority: int) -> None:
        """The blocking form of `set_priority`."""
        apart(lambda: self.set_priority(priority))


def _id_of(job: Placed | str) -> str:
    if not isinstance(job, Placed | str):
        raise InvalidInput("other", f"must be a job or its id, got {shown(job)}")
    return job if isinstance(job, str) else job.id


async def alter_pair(client: Client, job_id: str, other_id: str, make: Callable[[str, str], Alteration], what: str) -> bool:
    """Change the places of two jobs, each the last link of its chain. False: they stand so already."""
    client.check_apart(what)
    while True:
        job, other = await client.head(job_id), await client.head(other_id)
        [answer] = await client.driver.alter([make(job.id, other.id)], now=client.now())
        if answer in ("applied", "unchanged"):
            return answer == "applied"
        if (await client.head(job_id), await client.head(other_id)) == (job, other):
            raise refusal(job, other, answer, what)


def refusal(job: Job, other: Job, answer: AlterAnswer, what: str) -> Exception:
    if answer == "not_found":
        return JobNotFound(job.id)
    if answer == "wrong_state":
        waits = job.state == "queued"
        who = f"job {other.id!r} is {other.state}" if waits else f"it is {job.state}"
        return Refused(job.id, what, f"{who}; {PLACED}")
    if job.queue != other.queue:
        return Refused(job.id, what, f"it is in the queue {job.queue!r}, and job {other.id!r} in {other.queue!r}")
    return Refused(
        job.id, what, f"its priority is {job.priority}, and that of job {other.id!r} is {other.priority}; give it the same "
        "one (take_priority=True, --take-priority), or change it first (set_priority, windlass jobs priority)"
    )  # fmt: skip
