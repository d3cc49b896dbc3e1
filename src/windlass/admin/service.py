"""`Admin`: everything a person can look at or change in a store. The command line, the API and the dashboard translate to
and from it, and have no rules of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from windlass.admin import doctor, enqueueing, fleet, groups, holding, limits, logs, repair, schedules, security
from windlass.admin.access import Access
from windlass.admin.capacity import WITHIN, Capacities, capacities
from windlass.admin.enqueueing import Wish
from windlass.admin.filtering import last_run_of
from windlass.admin.finding import Finding
from windlass.admin.groups import GroupDetail, GroupList
from windlass.admin.sampled import Sampled, sampled
from windlass.admin.schedules import ScheduleList
from windlass.admin.showing import looked_through, scrub_of
from windlass.admin.timeline import timeline, timeline_of_runs
from windlass.admin.views import (
    Changed,
    Diagnosis,
    Fleet,
    Holds,
    HoldView,
    JobDetail,
    JobList,
    JobView,
    LogView,
    Mended,
    MigrationStatus,
    MigrationStep,
    Overview,
    Queued,
    Runs,
    RunView,
    Why,
    job_view,
    link_view,
    queue_view,
    run_view,
)
from windlass.admin.webhooks import WebhookAdmin
from windlass.admin.webhooks import checks as webhook_checks
from windlass.admin.why import why
from windlass.client import CHAIN_LIMIT, Client
from windlass.clock import moment
from windlass.core.alterations import Renormalise, SetPaused
from windlass.core.history import RUNS_LIMIT, check_page, earlier_runs, unkept_run
from windlass.core.holds import is_valid
from windlass.core.queries import AllHolds, AllQueues, InOrder, SeenLately
from windlass.drivers import migrate, migrations_of
from windlass.errors import JobNotFound
from windlass.groups import GroupHandle
from windlass.handles import JobHandle
from windlass.holds import QueueHold, check_queue
from windlass.limits import Limits, pausable
from windlass.options import JobOptions
from windlass.policies import Duration
from windlass.records import Fault
from windlass.schedules import Schedules, Templates
from windlass.types import TERMINAL, End, Job, Label, Run, Side
from windlass.wording import UNKEPT
from windlass.words import System

if TYPE_CHECKING:
    from windlass.tasks import Task

FIRST_LOOK: Final = 0.05
LONGEST_LOOK: Final = 0.5


class Admin(Access, Finding, WebhookAdmin):
    def __init__(self, client: Client, tasks: Mapping[str, Task[..., Any]] | None = None) -> None:
        super().__init__(client, tasks)
        self.templates: Final = Templates(self)
        self.schedules: Final = Schedules(self)

    # ---------------------------------------------------------------------------------------------------------- looking

    async def job(self, job_id: str, *, system: System | None = None, reveal: bool = False) -> JobDetail:
        """One job with everything that is known of it, and all links of its retry chain. Raises `JobNotFound`."""
        chain = await self._chain(job_id)
        now, links, head = self.client.now(), {job.id: job for job, _ in chain}, chain[-1][0]

        def shown() -> tuple[dict[str, JobView], tuple[RunView, ...]]:
            both = {job_id: links[job_id], head.id: head}
            views = {name: job_view(job, now, system, last_run_of(job), reveal=reveal) for name, job in both.items()}
            return views, run_views(chain)

        views, runs = await looked_through(links.values(), shown)
        return JobDetail(
            at=moment(now), job=views[job_id], head=views[head.id], links=tuple(links),
            chain=tuple(link_view(job, now) for job, _ in chain), runs=runs, timeline=timeline(chain, now),
            earlier_runs=sum(earlier_runs(*link) for link in chain),
            unkept=UNKEPT if unkept_run(*chain[-1]) is not None else None,
            parents=await groups.parents(self.client, job_id),
            dependants=await groups.dependants(self.client, head.id),
        )  # fmt: skip

    async def runs(self, job_id: str, *, before: int | None = None, limit: int = RUNS_LIMIT) -> Runs:
        """The newest executions, of all links of the chain; with `before`, those before that run of this job, of this link
        and of those that it took over from."""
        check_page(before, limit)
        chain, now = await self._chain(job_id, before, limit), self.client.now()
        earlier, left = 0, limit
        for job, runs in reversed(chain):
            if runs or left == 0:  # else this link was looked at, and there is nothing: promised, it would be for ever
                earlier += earlier_runs(job, runs)
            left -= len(runs)
        return Runs(
            at=moment(now), runs=await looked_through([job for job, _ in chain], lambda: run_views(chain)),
            timeline=timeline(chain, now) if before is None else timeline_of_runs(chain),
            earlier=earlier,
        )  # fmt: skip

    async def why(self, job_id: str) -> Why:
        """The reasons why a job is not running, the most important one first."""
        return await why(self.client, job_id)

    async def logs(self, job_id: str, *, run: int | None = None) -> LogView:
        """What a run of the job has logged: its `run`th, or else the last one that has a log."""
        return await logs.read(self.client, await self._chain(job_id), job_id, run)

    def follow_logs(self, job_id: str) -> AsyncIterator[str]:
        """The log of a run while it is being written, until the job has ended."""
        return logs.follow(self.client, job_id)

    async def _chain(self, job_id: str, before: int | None = None, limit: int = RUNS_LIMIT) -> list[tuple[Job, list[Run]]]:
        """With `before`, a run of this job: the chain as far as to this link."""
        driver = self.client.driver
        [asked] = await driver.get([job_id])
        if asked is None:
            raise JobNotFound(job_id)
        links = [asked]
        while links[0].retry_of is not None and len(links) < CHAIN_LIMIT:
            [parent] = await driver.get([links[0].retry_of])
            if parent is None:
                break
            links.insert(0, parent)
        while before is None and links[-1].superseded_by is not None and len(links) < CHAIN_LIMIT:
            [after] = await driver.get([links[-1].superseded_by])
            if after is None:
                break
            links.append(after)
        runs = await self.client.newest_runs([job.id for job in links], limit, before)
        return [(job, runs.get(job.id, [])) for job in links]

    async def follow(self, job_id: str, *, system: System | None = None) -> AsyncIterator[JobView]:
        """The job each time that it has changed, until it has ended. A retry chain is followed to its last link."""
        seen: tuple[str, int] | None = None
        pause = FIRST_LOOK
        while True:
            job = await self.client.head(job_id)
            job_id = job.id
            if (job.id, job.updated_at) != seen:
                seen, pause = (job.id, job.updated_at), FIRST_LOOK
                yield job_view(job, self.client.now(), system, last_run_of(job))
                if job.state in TERMINAL:
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, LONGEST_LOOK)

    async def overview(self) -> Overview:
        """Every queue: the number of its jobs by label, and whether it is paused."""
        now = self.client.now()
        rows = {queue.name: queue for queue in await self.client.driver.read(AllQueues())}
        counts: dict[str, dict[Label, int]] = {name: {} for name in rows}
        for count in await self.client.driver.count(now=now):
            counts.setdefault(count.queue, {})[count.label] = count.jobs
        held = {hold.queue: hold for hold in await self.client.driver.read(AllHolds()) if is_valid(hold, now)}
        for name in held:
            counts.setdefault(name, {})
        views = [queue_view(name, rows.get(name), counts[name], held.get(name)) for name in sorted(counts)]
        return Overview(at=moment(now), queues=tuple(views))

    async def capacity(self, within: Duration = WITHIN) -> Capacities:
        """Every queue: whether and when it drains, how many workers it needs to keep up, and how many to drain it
        `within` a time."""
        return await capacities(self.client, await self.overview(), within)

    async def order(self, queue: str, *, limit: int = 50, system: System | None = None) -> JobList:
        """The queued jobs of a queue in the order of dispatch, with their positions, whatever they wait for."""
        await check_queue(self.client, queue)
        found, now = await self.client.driver.read(InOrder(queue=queue, limit=limit)), self.client.now()
        views = await looked_through(found, lambda: tuple(job_view(job, now, system, brief=True) for job in found))
        return JobList(at=moment(now), jobs=views, cursor=None)

    async def sampled(self) -> Sampled:
        """Queues as the leader sampled them last, for metrics."""
        return await sampled(self.client)

    async def workers(self) -> Fleet:
        """The registered workers: which of them are alive, and which one leads."""
        return await fleet.fleet(self.client)

    async def scheduled(self) -> ScheduleList:
        """Every schedule: what it makes, when, and whether code still declares it."""
        return await schedules.listed(self.client)

    async def groups(self, limit: int = 50) -> GroupList:
        """The newest groups with their progress."""
        return await groups.all_groups(self.client, limit)

    async def group(self, group_id: str, *, system: System | None = None, limit: int | None = None) -> GroupDetail:
        """One group with its members in their order, all of them or the first `limit`."""
        return await groups.one_group(self.client, group_id, system, limit)

    async def types(self, limit: int = 200) -> tuple[str, ...]:
        """The types of the newest jobs."""
        return tuple(sorted({seen.type for seen in await self.client.driver.read(SeenLately(jobs=limit))}))

    # --------------------------------------------------------------------------------------------------------- changing

    async def pause(self, queue: str) -> bool:
        """Stop claiming jobs of a queue; running ones go on. Returns False if it was paused already."""
        await check_queue(self.client, queue)
        return await self._set_paused(queue, True)

    async def resume(self, queue: str) -> bool:
        await check_queue(self.client, queue)
        return await self._set_paused(queue, False)

    async def _set_paused(self, queue: str, paused: bool) -> bool:
        [answer] = await self.client.driver.alter([SetPaused(queue, paused)], now=self.client.now())
        return answer == "applied"

    async def limits(self) -> limits.LimitList:
        """Every limit: how much of it is used, who holds it, and how many jobs wait for it."""
        return await limits.listed(self.client)

    async def set_limit(
        self, key: str, most: int | Literal["none"] | None = None, rate: str | None = None, burst: float | None = None,
        weight: float | None = None,
    ) -> str:  # fmt: skip
        """Change a limit. What is left out stays as it is, "none" takes it away. Returns the key as it is stored."""
        return await limits.set_limit(self.client, key, most, rate, burst, weight)

    async def remove_limit(self, key: str) -> str:
        return await limits.remove(self.client, key)

    async def pause_limit(self, key: str, paused: bool) -> tuple[str, bool]:
        """Stop claiming jobs of a type, an org, a tag or a key, or begin again. Returns the key, and whether that changed
        anything."""
        book = Limits(self.client)
        return pausable(key), await (book.pause(key) if paused else book.resume(key))

    async def cancel(self, job_id: str, reason: str = "cancelled") -> Changed:
        answer = await self._handle(job_id).cancel(reason)
        return Changed(await self._head(job_id), "cancelled" if answer == "cancelled" else "cancel requested")

    async def retry(self, job_id: str) -> Changed:
        return Changed((await self._handle(job_id).retry()).id, "queued again")

    async def run_now(self, job_id: str) -> Changed:
        await self._handle(job_id).run_now()
        return Changed(await self._head(job_id), "due now")

    async def move(self, job_id: str, to: End) -> Changed:
        await self._handle(job_id).move(to)
        return Changed(await self._head(job_id), "moved")

    async def move_beside(self, job_id: str, other_id: str, side: Side, *, take_priority: bool = False) -> Changed:
        await self._handle(job_id).move_beside(other_id, side, take_priority=take_priority)
        return Changed(await self._head(job_id), "moved")

    async def swap(self, job_id: str, other_id: str) -> Changed:
        await self._handle(job_id).swap(other_id)
        return Changed(await self._head(job_id), "swapped")

    async def set_priority(self, job_id: str, priority: int) -> Changed:
        await self._handle(job_id).set_priority(priority)
        return Changed(await self._head(job_id), "priority changed")

    async def renormalise(self, queue: str) -> bool:
        """Give the queued jobs of a queue new positions in the same order. Returns False if nothing had to change."""
        await check_queue(self.client, queue)
        [answer] = await self.client.driver.alter([Renormalise(queue)], now=self.client.now())
        return answer == "applied"

    async def delete(self, job_id: str) -> Changed:
        await self._handle(job_id).delete()
        return Changed(job_id, "deleted")

    async def cancel_group(self, group_id: str, reason: str = "cancelled") -> Literal["cancelled", "requested"]:
        return await GroupHandle(self.client, group_id).cancel(reason)

    async def retry_group(self, group_id: str) -> int:
        """Run the members again that died or were cancelled. Returns how many."""
        return await GroupHandle(self.client, group_id).retry()

    def _handle(self, job_id: str) -> JobHandle[Any]:
        return JobHandle(self.client, job_id, None)

    async def _head(self, job_id: str) -> str:
        return (await self.client.head(job_id)).id

    def texts_of(self, type: str) -> frozenset[str]:  # noqa: A002
        """Which arguments of a task take text, as far as its program is known."""
        task = (self.tasks or {}).get(type)
        return frozenset() if task is None else task.texts

    async def enqueue(self, type: str, payload: Mapping[str, Any], options: JobOptions) -> Queued:  # noqa: A002
        """Store a job of a type. If the program is known, the options and the signature of its task apply. If not, any
        type is stored, with the rules of Harmonyk, as by `app.repository`."""
        [queued] = await self.enqueue_many([Wish(type, payload, options)])
        return queued

    async def enqueue_many(self, wishes: Sequence[Wish]) -> tuple[Queued, ...]:
        """Store all of the jobs in one transaction, or none."""
        return await enqueueing.enqueue(self.client, self.tasks, wishes)

    # ------------------------------------------------------------------------------------------------------------ holds

    async def holds(self, *, ended: bool = False) -> Holds:
        """The holds of queues and who has them; with `ended`, past ones too."""
        return await holding.holds(self.client, ended=ended)

    async def acquire(self, queue: str, by: str, *, expires_in: Duration, wait: Duration | None) -> HoldView:
        """Take a queue until it is released or the time is over. Nobody renews such a hold."""
        return await holding.acquire(self.client, queue, by, expires_in, wait)

    async def renew(self, hold_id: str, expires_in: Duration) -> HoldView:
        """Extend a hold that is still valid; its time is never shortened. Raises `HoldLost` if it is not valid any more."""
        return await holding.renew(self.client, hold_id, expires_in)

    async def release(self, hold_id: str, by: str) -> HoldView:
        """End a hold of anybody. The audit log says who did it."""
        return await holding.release(self.client, hold_id, by)

    def hold(self, queue: str, by: str, *, expires_in: Duration, wait: Duration | None) -> QueueHold:
        return QueueHold(self.client, queue, by, expires_in, wait)

    # -------------------------------------------------------------------------------------------------------- the store

    async def ping(self) -> None:
        """Whether the store answers."""
        await self.client.driver.read(AllQueues())

    async def doctor(self, *, rows: bool = True) -> Diagnosis:
        """What is wrong with the store and its workers. With `rows`, all runs are read to find rows that contradict each
        other."""
        store = await doctor.examine(self.client, rows=rows)
        return Diagnosis((
            *store.checks, *await fleet.checks(self.client), *await schedules.checks(self.client),
            *await webhook_checks(self.client),
        ))  # fmt: skip

    async def security(self) -> Diagnosis:
        """What lets in people who should stay out: rights, the way to the store, tokens, webhooks, keys, the process
        list."""
        return await security.examine(self.client)

    async def faults(self) -> list[Fault]:
        """Rows that contradict each other. Only other programs or SQL by hand can have written them."""
        return await repair.faults(self.client)

    async def repair(self, found: Sequence[Fault]) -> Mended:
        """Put right the rows that `faults` finds."""
        return await repair.repair(self.client, found)

    def migrations(self) -> MigrationStatus:
        """The schema steps of the store, and which of them are applied. Changes nothing."""
        found = migrations_of(self.client.url, **self.client.options())
        steps = (MigrationStep(step.label, done, step.concurrent, step.text) for step, done in found.steps)
        return MigrationStatus(found.where, tuple(steps), found.script, found.unsure)

    def migrate(self) -> tuple[str, ...]:
        """Apply the missing schema steps and return their names."""
        return tuple(migrate(self.client.url, **self.client.options()))


def run_views(chain: Sequence[tuple[Job, Sequence[Run]]]) -> tuple[RunView, ...]:
    return tuple(run_view(run, scrub) for job, runs in chain for scrub in (scrub_of(job),) for run in runs)
