"""Handles of groups: of one that is stored, and of one that is being created."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Literal, TypeVar

from msgspec.structs import replace

from windlass.apart import WouldHang, apart, check_no_loop
from windlass.client import Client, joined
from windlass.clock import duration
from windlass.context import running_now
from windlass.core.admission import GROUP_MODES, ON_FAILURE
from windlass.core.alterations import AlterAnswer, Alteration, CancelGroup, RetryGroup
from windlass.core.fields import check_name, check_one_of, check_text
from windlass.core.groups import GroupStatus, Progress, comes_back, progress_of
from windlass.core.queries import GroupsById, MembersOf
from windlass.drivers.values import JobQuery
from windlass.errors import GroupNotFound, GroupRefused, InvalidInput, shown
from windlass.handles import JobHandle
from windlass.policies import Duration
from windlass.results import HELD, UNCOMMITTED, is_same_run
from windlass.tasks import PreparedJob
from windlass.telling import why_it_waits
from windlass.types import Group, GroupMode, Job, NewGroup, NewJob, OnFailure

R = TypeVar("R")
PAGE: Final = 1_000
FIRST_LOOK: Final = 0.01
LONGEST_LOOK: Final = 0.5


class GroupHandle:
    """A stored group, by its id. Its calls raise `GroupNotFound` if there is no such group."""

    def __init__(self, client: Client, group_id: str) -> None:
        self.id: Final = group_id
        self._client = client

    def __repr__(self) -> str:
        return f"<group {self.id}>"

    async def fetch(self) -> Group:
        """The group as it is stored now."""
        found = await self._client.driver.read(GroupsById(ids=(self.id,)))
        if not found:
            raise GroupNotFound(self.id)
        return found[0]

    async def progress(self) -> Progress:
        """Count the members that succeeded, died, were skipped or cancelled, run or wait; and the status of the group."""
        group = await self.fetch()
        return progress_of(group, await self._client.driver.read(MembersOf(ids=(self.id,))))

    async def status(self) -> GroupStatus:
        """The status of the group: pending, running, completed, partial, failed or cancelled."""
        return (await self.progress()).status

    async def members(self) -> list[Job]:
        """The jobs of the group in their order. Of a retry chain only the last link is listed."""
        found: list[Job] = []
        cursor: int | None = None
        while True:
            page = await self._client.driver.find(JobQuery(group_id=self.id, before=cursor, limit=PAGE))
            found += [job for job in page.jobs if job.superseded_by is None]
            cursor = page.cursor
            if cursor is None:
                return sorted(found, key=lambda job: (job.group_seq or 0, job.seq))

    async def wait(self, timeout: Duration | None = None) -> Progress:
        """Wait until every member has ended. Raises `TimeoutError` after `timeout`, which does not stop the group, and
        `WouldHang` where that cannot be before the caller ends, such as in the handler of a member."""
        seconds = None if timeout is None else duration(timeout, field="timeout") / 1_000_000
        pause = FIRST_LOOK
        around = self._client.around()
        if around is not None and around.has_new(self.id):
            raise WouldHang(UNCOMMITTED)
        try:
            async with asyncio.timeout(seconds) as limit:
                while (await self.fetch()).remaining > 0:
                    if around is not None and around.alone:
                        raise WouldHang(HELD)
                    await self._check_waits_outside()
                    await asyncio.sleep(pause)
                    pause = min(1.5 * pause, LONGEST_LOOK)
        except TimeoutError:
            if not limit.expired():
                raise
            helps = why_it_waits(self._client.driver.capabilities.durable, f"windlass groups show {self.id}")
            raise TimeoutError(f"group {self.id!r} has not ended within {seconds:g} s; {helps}") from None
        return await self.progress()

    async def _check_waits_outside(self) -> None:
        """A member has not ended while its handler waits."""
        running = running_now()
        if running is None or running.job.group_id != self.id:
            return
        [job] = await self._client.driver.get([running.job.id])
        if job is not None and is_same_run(job, running.job):
            raise WouldHang(
                "a member of a group cannot wait for it to end, since it would have to end before: let the job that "
                "comes after the group do what follows, with group.finish_with(task.job(...))"
            )

    def wait_sync(self, timeout: Duration | None = None) -> Progress:
        """The blocking form of `wait`, for code without an event loop."""
        check_no_loop("wait_sync()", "await group.wait()")
        return apart(lambda: self.wait(timeout))

    def fetch_sync(self) -> Group:
        """The blocking form of `fetch`."""
        return apart(self.fetch)

    def progress_sync(self) -> Progress:
        """The blocking form of `progress`."""
        return apart(self.progress)

    def status_sync(self) -> GroupStatus:
        """The blocking form of `status`."""
        return apart(self.status)

    def members_sync(self) -> list[Job]:
        """The blocking form of `members`."""
        return apart(self.members)

    def cancel_sync(self, reason: str = "cancelled") -> Literal["cancelled", "requested"]:
        """The blocking form of `cancel`."""
        return apart(lambda: self.cancel(reason))

    def retry_sync(self) -> int:
        """The blocking form of `retry`."""
        return apart(self.retry)

    async def cancel(self, reason: str = "cancelled") -> Literal["cancelled", "requested"]:
        """Cancel the group. Queued members are cancelled at once. If members are running, they are asked to stop, and the
        answer is `requested`."""
        check_text("reason", reason)
        if await self._alter(CancelGroup(self.id, reason), "cancelled") == "unchanged" and await self._has_ended():
            return "cancelled"
        return "cancelled" if await self._has_ended() else "requested"

    async def _has_ended(self) -> bool:
        return (await self.fetch()).remaining == 0

    async def retry(self) -> int:
        """Run the members again that died or were cancelled, in their order, and return their number. Jobs outside the
        group that waited for it, such as that of `finish_with`, do not run again. Raises `GroupRefused` if there is no
        such member, or if members were deleted."""
        group, members = await self.fetch(), await self.members()
        if len(members) < group.total:
            gone = group.total - len(members)
            raise GroupRefused(self.id, "retried", f"{gone} of its {group.total} members were deleted; retry single jobs")
        now = self._client.now()
        pairs = tuple((job.id, self._client.ids.job(now)) for job in members if comes_back(job))
        if not pairs:
            raise GroupRefused(self.id, "retried", "none of its members has died or was cancelled")
        answer = await self._alter(RetryGroup(self.id, pairs), "retried")
        if answer == "duplicate":
            raise GroupRefused(self.id, "retried", "another job with the dedupe key of a member is queued or running")
        return len(pairs) if answer == "applied" else 0

    async def _alter(self, change: Alteration, what: str) -> AlterAnswer:
        transaction = joined.get()
        if transaction is not None and transaction.client is self._client:
            raise InvalidInput(
                "transaction", f"only enqueues join it; a group cannot be {what} here: do it before or after"
            )
        [answer] = await self._client.driver.alter([change], now=self._client.now())
        if answer == "not_found":
            raise GroupNotFound(self.id)
        return answer


class OpenGroup(GroupHandle):
    """A group that is being created: `async with app.group(...) as g`, or `with` in blocking code. Leaving the block
    stores it with all its members in one transaction; if the block raises, nothing is stored."""

    def __init__(
        self, client: Client, name: str, *, mode: GroupMode, on_failure: OnFailure, group_id: str | None, conn: object,
        notify: bool,
    ) -> None:  # fmt: skip
        check_name("name", name)
        check_one_of("mode", mode, GROUP_MODES)
        check_one_of("on_failure", on_failure, ON_FAILURE)
        if group_id is not None:
            check_name("id", group_id)
        super().__init__(client, client.ids.job(client.now_beside(conn)) if group_id is None else group_id)
        self.jobs: Final[list[JobHandle[Any]]] = []
        self._group = NewGroup(group_id=self.id, name=name, mode=mode, on_failure=on_failure)
        self._members: list[NewJob] = []
        self._last: list[NewJob] = []
        self._conn, self._notify = conn, notify
        self._over = False

    def add(self, job: PreparedJob[R]) -> JobHandle[R]:
        """Add a member: `g.add(task.job(...))`. Later members can wait for it: `task.using(after=[handle])`."""
        self._check(job)
        changes = {"group_id": self.id, "group_seq": len(self._members), "on_duplicate": "raise", "opens": self._group}
        self._members.append(replace(job.new, **changes))
        handle = JobHandle[R](self._client, job.new.id, job.results)
        self.jobs.append(handle)
        return handle

    def finish_with(self, job: PreparedJob[R]) -> JobHandle[R]:
        """Add a job that runs once all members have ended, with success or not. It is not a member itself."""
        self._check(job)
        self._last.append(job.new)
        return JobHandle[R](self._client, job.new.id, job.results)

    def _check(self, job: object) -> None:
        if self._over:
            raise InvalidInput("group", "it is stored already; members are added inside the block")
        if not isinstance(job, PreparedJob):
            raise InvalidInput("job", f"takes what task.job(...) makes, got {shown(job)}")
        if job.new.group_id is not None:
            raise InvalidInput("job", "is in a group already; task.job(...) makes another")

    def _batch(self) -> Sequence[NewJob]:
        self._over = True
        if not self._members:
            raise InvalidInput("group", "has no members; add some inside the block: g.add(task.job(...))")
        all_of_them = tuple(job.id for job in self._members)
        last = [
            replace(job, after=(*dict.fromkeys((*all_of_them, *job.after)),), after_rule="continue") for job in self._last
        ]
        return [*self._members, *last]

    async def __aenter__(self) -> OpenGroup:
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if error is None:
            batch = self._batch()
            await self._client.enqueue(batch, self._client.now(), self._conn, self._notify)
        self._over = True

    def __enter__(self) -> OpenGroup:
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        if error is None:
            batch = self._batch()
            self._client.enqueue_sync(batch, self._client.now_beside(self._conn), self._conn, self._notify)
        self._over = True

    def _begin(self) -> None:
        if self._over:
            raise InvalidInput("group", "one block for each app.group(...)")
