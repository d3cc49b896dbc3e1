"""Jobs that wait for other jobs: what is stored with them, and what the end of a parent does."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from windlass.core import dependencies as rules
from windlass.core.changes import Ending
from windlass.core.counters import count_member
from windlass.core.dependencies import INLINE, Edge
from windlass.core.groups import stops
from windlass.drivers.memory.events import announce_cancelled, announce_group
from windlass.drivers.memory.limits import keys_of, let_through
from windlass.drivers.memory.tables import Tables
from windlass.drivers.values import Enqueued
from windlass.errors import InvalidInput
from windlass.types import TERMINAL, Dependency, Group, Job, Micros, NewJob


def chain_head(tables: Tables, job_id: str) -> str:
    job = tables.find(job_id)
    while job is not None and job.superseded_by is not None:
        job_id, job = job.superseded_by, tables.find(job.superseded_by)
    return job_id


def links_before(tables: Tables, job_id: str) -> Iterator[Job]:
    """A job and the links of its chain before it, the latest first."""
    job = tables.find(job_id)
    while job is not None:
        yield job
        job = tables.find(job.retry_of or "")


def edges_before(tables: Tables, job_id: str) -> list[Dependency]:
    """What a job waits for or has waited for: its own dependencies, or those of the nearest link before it that has any."""
    return next((edges for link in links_before(tables, job_id) if (edges := tables.edges_of(link.seq))), [])


# ------------------------------------------------------------------------------------------------------------- linking


def link(tables: Tables, jobs: Sequence[NewJob], answers: Sequence[Enqueued], now: Micros) -> None:
    """The rest of an enqueue: groups that come with their members, and what each of the new jobs waits for."""
    rules.check_links(jobs)
    existing = {job.id: answer.id for job, answer in zip(jobs, answers, strict=True) if answer.existed}
    rules.check_fresh_members(jobs, existing)
    open_groups(tables, jobs, now)
    edges: defaultdict[str, dict[str, Edge]] = defaultdict(dict)  # by the new job, then by the head of the parent's chain
    for edge in rules.edges_of(jobs):
        if edge.job_id not in existing:
            head = chain_head(tables, existing.get(edge.parent_id, edge.parent_id))
            if tables.find(head) is None:
                raise rules.unknown_parent(edge.parent_id)
            edges[edge.job_id].setdefault(head, edge)
    doomed = [new.id for new in jobs if new.id in edges and link_one(tables, new, edges[new.id], now)]
    await_all(tables, {head for found in edges.values() for head in found}, now)
    advance(tables, skip(tables, [job_at(tables, job_id) for job_id in doomed], now), now)


def open_groups(tables: Tables, jobs: Sequence[NewJob], now: Micros) -> None:
    for group_id, (group, members) in rules.groups_of(jobs).items():
        if group_id in tables.groups:
            raise InvalidInput("group_id", f"there is a group {group_id!r} already")
        row = Group(
            group_id=group_id, name=group.name, mode=group.mode, on_failure=group.on_failure, total=len(members),
            remaining=len(members), created_at=now,
        )  # fmt: skip
        tables.put_in(tables.groups, group_id, row)


def link_one(tables: Tables, new: NewJob, edges: dict[str, Edge], now: Micros) -> bool:
    """Whether one of its parents has ended so that the job will never run."""
    job = job_at(tables, new.id)
    told = {head: rules.verdict(edge.rule, job_at(tables, head).state) for head, edge in edges.items()}
    for head, edge in edges.items():
        done = told[head] != "waits"
        tables.put_edge(job.seq, Dependency(job_id=job.id, parent_id=head, rule=edge.rule, done=done))
    tables.put(rules.linked(job, list(told.values()).count("waits"), new.after_rule, now))
    return "cancel" in told.values()


def await_all(tables: Tables, parents: set[str], now: Micros) -> None:
    for parent in sorted((job_at(tables, parent_id) for parent_id in parents), key=lambda job: job.seq):
        if parent.state not in TERMINAL and not parent.awaited:
            tables.put(rules.awaited(parent, now))


def job_at(tables: Tables, job_id: str) -> Job:
    job = tables.find(job_id)
    assert job is not None, f"{job_id} was there a moment ago"
    return job


# ------------------------------------------------------------------------------------------------------ ends of parents


def advance(tables: Tables, ended: Sequence[str], now: Micros, budget: int = INLINE) -> int:
    """Tell those who wait for these jobs, and for those that are skipped with them, that they have ended. Answers how many
    edges were told; what is left when the budget is used up is owed."""
    told, level = 0, [parent_id for parent_id in dict.fromkeys(ended) if job_at(tables, parent_id).awaited]
    while level and told < budget:
        parents = {parent_id: job_at(tables, parent_id) for parent_id in level}
        edges = [edge for parent_id in sorted(level) for edge in tables.edges_to(parent_id) if not edge[1].done]
        edges = edges[: budget - told]
        told += len(edges)
        freed: Counter[int] = Counter()
        doomed: set[int] = set()
        for seq, edge in edges:
            tables.put_in(tables.edges, (edge.parent_id, seq), replace(edge, done=True))
            if tables.jobs[seq].state == "queued":
                if rules.verdict(edge.rule, parents[edge.parent_id].state) == "cancel":
                    doomed.add(seq)
                freed[seq] += 1
        for seq in sorted(freed.keys() - doomed):
            tables.put(rules.released(tables.jobs[seq], freed[seq], now))
        for parent_id in sorted(level):
            if all(edge.done for _, edge in tables.edges_to(parent_id)):
                tables.put(rules.awaited(parents[parent_id], now, yes=False))
        level = skip(tables, [tables.jobs[seq] for seq in sorted(doomed)], now)
    return told


def skip(tables: Tables, jobs: Sequence[Job], now: Micros) -> list[str]:
    """End queued jobs that will never run. Answers those that others wait for."""
    for job in jobs:
        tables.put_run(job.seq, rules.skipped_run(job, now))
        tables.put(rules.skipped(job, now))
    announce_cancelled(tables, [job.id for job in jobs], now)
    for group_id, members in sorted(Counter(job.group_id for job in jobs if job.group_id is not None).items()):
        count_in_group(tables, group_id, "cancelled", now, members)
    return [job.id for job in jobs if job.awaited]


def count_in_group(tables: Tables, group_id: str, ending: Ending, now: Micros, members: int) -> None:
    """Count members of a group that have ended. With the last of them the group has ended."""
    before = tables.groups.get(group_id)
    if before is None:
        return
    after = count_member(before, ending, now, members)
    tables.put_in(tables.groups, group_id, after)
    if before.remaining > 0 and after.remaining == 0:
        announce_group(tables, after, now)


def stop(tables: Tables, group_id: str, ending: Ending, now: Micros) -> list[str]:
    """A member has ended: queued ones may have to be skipped. Answers those that others wait for."""
    group = tables.groups.get(group_id)
    if group is None or not stops(group.mode, group.on_failure, ending):
        return []
    members = [job for _, job in sorted(tables.jobs.items()) if job.group_id == group_id and job.state == "queued"]
    ended = skip(tables, members, now)
    pass_on(tables, members, now)
    return ended


def pass_on(tables: Tables, cancelled: Sequence[Job], now: Micros) -> None:
    """Let another job through if one of these, which will not run, was let through to a permit. Blocked jobs never are."""
    let_through(tables, sorted({key for job in cancelled if job.waiting_on == 0 for key in keys_of(job)}), now)


def hand_over(tables: Tables, parent: Job, child_id: str, now: Micros) -> None:
    """The jobs that wait for a link of a chain wait for the next link instead."""
    edges = [(seq, edge) for seq, edge in tables.edges_to(parent.id) if not edge.done]
    for seq, edge in edges:
        tables.drop_from(tables.edges, (parent.id, seq))
        tables.put_edge(seq, replace(edge, parent_id=child_id))
    if edges:
        tables.put(rules.awaited(job_at(tables, child_id), now))
    tables.put(rules.awaited(job_at(tables, parent.id), now, yes=False))


def pay(tables: Tables, now: Micros, budget: int) -> int:
    """Tell waiting jobs what ended jobs still owe them: the part of it that the sweep does."""
    owing = [job for job in tables.jobs.values() if job.awaited and job.finished_at is not None]
    return advance(tables, [job.id for job in sorted(owing, key=lambda job: job.seq)], now, budget)
