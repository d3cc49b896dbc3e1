"""Jobs that wait for other jobs: values → statements. The effect of a change to a counter is known from `returning`,
never from an earlier read: each dependency is told exactly once, by whomever.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from windlass.core import dependencies as rules
from windlass.core.changes import Ending
from windlass.core.dependencies import BITES, FAILED_BEFORE, INLINE, SWEPT, Edge
from windlass.core.groups import stops
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.ops.events import announce_cancelled, announce_group
from windlass.drivers.rows import limits_of, to_json
from windlass.drivers.statement import Op, Row
from windlass.drivers.values import Enqueued
from windlass.errors import InvalidInput
from windlass.types import TERMINAL, AfterRule, Micros, NewJob, State

Heads = dict[str, tuple[str, int, State]]  # id asked for: id, seq and state of the last link of its chain


# ------------------------------------------------------------------------------------------------------------- linking


def link(db: Dialect, jobs: Sequence[NewJob], answers: Sequence[Enqueued], now: Micros) -> Op[None]:
    """The rest of an enqueue: groups that come with their members, and what each of the new jobs waits for."""
    existing = {job.id: answer.id for job, answer in zip(jobs, answers, strict=True) if answer.existed}
    rules.check_fresh_members(jobs, existing)
    yield from open_groups(db, jobs, now)
    wanted = [edge for edge in rules.edges_of(jobs) if edge.job_id not in existing]
    if not wanted:
        return
    groups = {job.group_id for job in jobs if job.group_id is not None and job.after}
    if groups and db.ours:  # else no member of theirs could be settled before the caller's commit
        yield from db.lock("lock_groups", ids=db.texts(sorted(groups)))
    asked = dict.fromkeys(existing.get(edge.parent_id, edge.parent_id) for edge in wanted)
    yield db.sql.doubt_groups(ids=db.texts(asked))
    heads: Heads = {row[0]: (row[1], row[2], row[3]) for row in (yield from db.hold_parents(list(asked)))}
    edges: defaultdict[str, dict[str, tuple[Edge, State]]] = defaultdict(dict)
    for edge in wanted:
        parent_id = existing.get(edge.parent_id, edge.parent_id)
        if parent_id not in heads:
            raise rules.unknown_parent(edge.parent_id)
        head, _, state = heads[parent_id]
        edges[edge.job_id].setdefault(head, (edge, state))
    doomed = yield from link_all(db, {job.id: job.after_rule for job in jobs}, edges, now)
    waited_for = {head for head, _, state in heads.values() if state not in TERMINAL}
    if waited_for:
        yield db.sql.await_jobs(ids=db.texts(sorted(waited_for)), now=now)
    if doomed:
        seqs = {row[0]: row[1] for row in (yield db.sql.seqs_of(ids=db.texts(doomed)))}
        ended = yield from skip(db, [seqs[job_id] for job_id in doomed], now)
        yield from advance(db, [row[1] for row in ended if row[3]], now)


def open_groups(db: Dialect, jobs: Sequence[NewJob], now: Micros) -> Op[None]:
    for group_id, (group, members) in sorted(rules.groups_of(jobs).items()):
        made = yield db.sql.put_group(
            group_id=group_id, name=group.name, mode=group.mode, on_failure=group.on_failure, total=len(members), now=now
        )
        if not made:
            raise InvalidInput("group_id", f"there is a group {group_id!r} already")


def link_all(
    db: Dialect, after_rules: dict[str, AfterRule], edges: dict[str, dict[str, tuple[Edge, State]]], now: Micros
) -> Op[list[str]]:
    """Answers those that will never run, because of how a parent has ended already."""
    rows: list[tuple[str, str, AfterRule, bool]] = []
    alike: defaultdict[tuple[int, AfterRule], list[str]] = defaultdict(list)
    doomed: list[str] = []
    for job_id, found in edges.items():
        told = {head: rules.verdict(edge.rule, state) for head, (edge, state) in found.items()}
        rows += [(job_id, head, edge.rule, told[head] != "waits") for head, (edge, _) in found.items()]
        alike[list(told.values()).count("waits"), after_rules[job_id]].append(job_id)
        if "cancel" in told.values():
            doomed.append(job_id)
    yield db.sql.insert_edges(edges=to_json(rows))
    for (waiting_on, rule), ids in alike.items():
        yield db.sql.link_jobs(ids=db.texts(ids), waiting_on=waiting_on, rule=rule, now=now)
    return doomed


# ------------------------------------------------------------------------------------------------------ ends of parents


def advance(db: Dialect, ended: Iterable[str], now: Micros, budget: int = INLINE) -> Op[int]:
    """Tell those who wait for these awaited jobs, and for those that are skipped with them, that they have ended. Answers
    how many edges were told; what is left when the budget is used up, or what somebody else holds, is owed."""
    told, level = 0, sorted(set(ended))
    while level and told < budget:
        parents = db.texts(level)
        found = yield db.sql.open_edges(parents=parents, limit=budget - told)
        usable = yield from usable_dependants(db, {row[1] for row in found})
        edges: list[Row] = []
        if usable:
            edges = yield db.sql.tell_edges(parents=parents, seqs=db.ints(sorted(usable)))
        told += len(edges)
        doomed = yield from release(db, level, [edge for edge in edges if usable[edge[1]] == "queued"], now)
        yield db.sql.forget_awaited(parents=parents, now=now)
        skipped = (yield from skip(db, doomed, now)) if doomed else []
        level = sorted(row[1] for row in skipped if row[3])
    return told


def usable_dependants(db: Dialect, seqs: Collection[int]) -> Op[dict[int, State]]:
    """Those that can be changed without waiting for anybody, and with their groups; how each stands."""
    if not seqs:
        return {}
    rows = yield db.sql.hold_dependants(seqs=db.ints(sorted(seqs)))
    groups = {group_id for _, group_id, _ in rows if group_id is not None}
    held: dict[str, bool] = dict((yield db.sql.held_groups(ids=db.texts(sorted(groups))))) if groups else {}
    return {seq: state for seq, group_id, state in rows if held.get(group_id, True)}


def release(db: Dialect, level: Sequence[str], edges: Sequence[Row], now: Micros) -> Op[list[int]]:
    """Count the told edges of queued jobs down. Answers those that are never to run."""
    if not edges:
        return []
    states: dict[str, State] = dict((yield db.sql.states_of(ids=db.texts(level))))
    doomed = {seq for parent_id, seq, rule in edges if rules.verdict(rule, states[parent_id]) == "cancel"}
    freed = Counter(seq for _, seq, _ in edges if seq not in doomed)
    alike: defaultdict[int, list[int]] = defaultdict(list)
    for seq, parents in freed.items():
        alike[parents].append(seq)
    for parents, group in sorted(alike.items()):
        yield db.sql.release_jobs(seqs=db.ints(sorted(group)), parents=parents, now=now)
    return sorted(doomed)


def skip(db: Dialect, seqs: Sequence[int], now: Micros) -> Op[list[Row]]:
    """End queued jobs that will never run. Answers their rows, as `skip_jobs` has them."""
    if not seqs:
        return []
    rows = yield db.sql.skip_jobs(seqs=db.ints(seqs), reason=FAILED_BEFORE, now=now)
    runs = [(seq, rules.skipped_run_id(seq, executions, now)) for seq, _, executions, *_ in rows]
    yield db.sql.insert_skipped(runs=to_json(runs), reason=FAILED_BEFORE, now=now)
    yield from announce_cancelled(db, [row[1] for row in rows], now)
    for group_id, members in sorted(Counter(row[4] for row in rows if row[4] is not None).items()):
        yield from count_in_group(db, group_id, "cancelled", members, now)
    return sorted(rows)


def count_in_group(db: Dialect, group_id: str, ending: Ending, members: int, now: Micros) -> Op[None]:
    """Count members of a group that have ended. With the last of them the group has ended."""
    rows = yield db.sql.count_members(group_id=group_id, ending=ending, members=members, now=now)
    if rows and rows[0][0] == 0:
        yield from announce_group(db, group_id, now)


def count_member(db: Dialect, group_id: str, ending: Ending, now: Micros) -> Op[list[str]]:
    """A member has ended, and queued ones may have to be skipped with it. Answers those that others wait for."""
    yield from count_in_group(db, group_id, ending, 1, now)
    if ending == "succeeded":
        return []
    rule = yield db.sql.group_rule(group_id=group_id)
    if not rule or not stops(rule[0][0], rule[0][1], ending):
        return []
    members = [row[0] for row in (yield db.sql.queued_members(group_id=group_id))]
    rows = yield from skip(db, members, now)
    yield from pass_on(db, [row[5:] for row in rows], now)
    return [row[1] for row in rows if row[3]]


def pass_on(db: Dialect, cancelled: Iterable[Row], now: Micros) -> Op[None]:
    """(waiting_on, limit keys, type, org, tags) of cancelled jobs: one of them may have been the one that was let through
    to a permit. Who is blocked never is."""
    yield from db.gate.pass_on({key for row in cancelled if row[0] == 0 for key in limits_of(row[1:])}, now)


def hand_over(db: Dialect, parent_id: str, child_id: str, now: Micros) -> Op[None]:
    """The jobs that wait for a link of a chain wait for the next link instead."""
    if (yield db.sql.hand_over(parent_id=parent_id, child_id=child_id)):
        yield db.sql.await_jobs(ids=db.texts([child_id]), now=now)
    yield db.sql.forget_awaited(parents=db.texts([parent_id]), now=now)


def pay(db: Dialect, now: Micros, budget: int) -> Op[int]:
    """Tell waiting jobs what ended jobs still owe them: the part of it that the sweep does."""
    owing = [row[0] for row in (yield db.sql.owing(limit=budget))]
    return (yield from advance(db, owing, now, budget)) if owing else 0


async def pay_on(db: Dialect, paid: int, now: Micros, transact: Callable[[Callable[[], Op[int]]], Awaitable[int]]) -> None:
    """After a sweep that has paid so much: the rest, each bite in a transaction of its own. Beside one that takes long
    nobody could settle."""
    for _ in range(1, BITES):
        if paid < SWEPT:
            return
        paid = await transact(lambda: pay(db, now, SWEPT))
