"""The part of the state machine in `model.py` about jobs that wait for others, and groups that come with their members.

It checks what no driver is asked about: counters against edges, and that nobody waits for what has ended."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from windlass.core.alterations import CancelGroup, RetryGroup
from windlass.core.dependencies import FAILED_BEFORE
from windlass.core.groups import progress_of
from windlass.core.queries import AllGroups, DependantsOf, EdgesOf, GroupsById, MembersOf, ParentsOf
from windlass.testing.model_machine import Machine
from windlass.types import TERMINAL, Dependency, Group, Job, NewGroup, NewJob, Run

fields = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(("a", "b")),
        "type": st.sampled_from(("x", "y")),
        "max_attempts": st.sampled_from((1, 2)),
        "limit_keys": st.sampled_from(((), (), ("l1",))),
        "dedupe_key": st.sampled_from((None, None, None, None, "k1")),
    }
)
rules = st.sampled_from(("cancel", "cancel", "continue"))
parents = st.lists(st.integers(0, 12), max_size=3)


class GroupRules(Machine):
    def __init__(self) -> None:
        super().__init__()
        self.tied: set[str] = set()  # jobs that may have waited for others; asking all of them would take long

    def _forget(self) -> None:
        raise NotImplementedError

    def _named(self, numbers: list[int], also: list[str]) -> tuple[str, ...]:
        """Jobs that are there, those of the same batch before the others; now and then one that is not."""
        there = [*also, *sorted(self.before)]
        found = ("nobody" if number == 12 else there[number % len(there)] for number in numbers if there)
        return tuple(dict.fromkeys(found))

    @rule(jobs=st.lists(st.tuples(fields, rules, parents, st.booleans()), min_size=1, max_size=4))
    def enqueue_after(self, jobs: list[tuple[dict[str, Any], Any, list[int], bool]]) -> None:
        """A small graph: each job may name those before it in the batch, and any that are stored."""
        names: list[str] = []
        batch: list[NewJob] = []
        for told, after_rule, numbers, chain in jobs:
            after = self._named(numbers, names)
            names.append(self.name("job"))
            batch.append(NewJob(id=names[-1], after=after, after_rule=after_rule, **told, **_mode(chain)))
        self.tied.update(names)
        self.both("enqueue", batch, now=self.now)

    @rule(
        members=st.lists(st.tuples(fields, st.booleans()), min_size=1, max_size=4),
        mode=st.sampled_from(("parallel", "sequential", "sequential")),
        on_failure=st.sampled_from(("stop", "stop", "continue", "skip")),
        finaliser=st.booleans(),
    )
    def open_group(self, members: list[tuple[dict[str, Any], bool]], mode: Any, on_failure: Any, finaliser: bool) -> None:
        group = NewGroup(group_id=self.name("group"), mode=mode, on_failure=on_failure)
        batch = [
            NewJob(
                id=self.name("member"), group_id=group.group_id, group_seq=n, opens=group, on_duplicate="raise", **told,
                **_mode(chain),
            )
            for n, (told, chain) in enumerate(members)
        ]  # fmt: skip
        if finaliser:
            after = tuple(job.id for job in batch)
            batch.append(NewJob(id=self.name("last"), type="x", queue="a", after=after, after_rule="continue"))
        self.tied.update(job.id for job in batch)
        self.both("enqueue", batch, now=self.now)

    @rule(pick=st.integers(0, 10), stranger=st.sampled_from((False, False, False, True)))
    def retry_group(self, pick: int, stranger: bool) -> None:
        group_id = self._some_group(pick)
        jobs = [job for job in self.before.values() if job.group_id == group_id and job.superseded_by is None]
        members = [(job.id, self.name("again")) for job in sorted(jobs, key=lambda job: job.seq)]
        if stranger:
            members.append(("nobody", self.name("again")))
        [answer], _ = self.both("alter", [RetryGroup(group_id, tuple(members))], now=self.now)
        if answer == "applied":
            self.replayed.update(job_id for job_id, _ in members)

    @rule(pick=st.integers(0, 10))
    def cancel_group(self, pick: int) -> None:
        self.both("alter", [CancelGroup(self._some_group(pick))], now=self.now)

    def _some_group(self, pick: int) -> str:
        groups: list[Group] = self._ask(self.spec, "read", AllGroups())
        return groups[pick % len(groups)].group_id if groups else "nobody"

    # ----------------------------------------------------------------------------------------------------- invariants

    @invariant()
    def those_who_wait_have_reason_to(self) -> None:
        jobs = {job.id: job for job in self._jobs(self.driver)}
        waits: Counter[str] = Counter()
        wanted: set[str] = set()
        self.tied.update(job.id for job in jobs.values() if job.retry_of in self.tied)
        for group_id in sorted({job.group_id for job in jobs.values() if job.group_id is not None}):
            self.both("read", EdgesOf(group_id=group_id))
        for job in jobs.values():
            if job.awaited:
                self.both("read", DependantsOf(job_id=job.id))
            if job.id not in self.tied:
                continue
            edges: list[Dependency]
            edges, _ = self.both("read", ParentsOf(job_id=job.id))
            for edge in edges:
                if edge.job_id != job.id or edge.done:
                    continue
                waits[job.id] += 1
                parent = jobs.get(edge.parent_id)
                assert parent is not None, f"{job.id} waits for {edge.parent_id}, which is gone"
                if job.state == "queued":
                    assert parent.state not in TERMINAL, f"{job.id} waits for {parent.id}, which is {parent.state}"
                wanted.add(parent.id)
            self._check_skipped(job)
        for job in jobs.values():
            if job.state == "queued":
                assert job.waiting_on == waits[job.id], f"{job.id} waits for {waits[job.id]}, and counts {job.waiting_on}"
            assert job.state != "running" or job.waiting_on == 0, f"{job.id} runs before its parents have ended"
            if job.state not in TERMINAL and job.id in wanted:
                assert job.awaited, f"nobody would be told of the end of {job.id}"

    def _check_skipped(self, job: Job) -> None:
        runs: list[Run] = self._ask(self.driver, "runs", job.id)
        for run in runs:
            if run.error == FAILED_BEFORE:
                assert run.status == "skipped"
                assert run.started_at == run.finished_at

    @invariant()
    def groups_add_up(self) -> None:
        groups: list[Group] = self._ask(self.driver, "read", AllGroups())
        ids = tuple(group.group_id for group in groups)
        members, _ = self.both("read", MembersOf(ids=ids))
        self.both("read", GroupsById(ids=ids))
        for group in groups:
            if not group.group_id.startswith("group"):
                continue  # declared apart from its members, who may be fewer or more
            counted: Counter[str] = Counter()
            for row in members:
                if row.group_id == group.group_id:
                    counted[row.state] += row.jobs
            there = (counted["succeeded"], counted["dead"], counted["cancelled"])
            if sum(counted.values()) == group.total:  # nobody deleted one
                assert there == (group.succeeded, group.failed, group.cancelled), f"{group}: {counted}"
            progress_of(group, members)
            self._check_order(group)

    def _check_order(self, group: Group) -> None:
        """In a sequence nobody has begun before all those before it have ended."""
        if group.mode != "sequential":
            return
        members = [job for job in self._jobs(self.driver) if job.group_id == group.group_id and job.superseded_by is None]
        members.sort(key=lambda job: (job.group_seq or 0, job.seq))
        for before, after in pairwise(members):
            if after.state == "running" and before.id not in self.replayed and before.retry_of not in self.replayed:
                assert before.state in TERMINAL, f"{after.id} runs although {before.id} has not ended"


def _mode(chain: bool) -> dict[str, Any]:
    return {"retry_mode": "new_job", "crash_policy": "fail"} if chain else {}
