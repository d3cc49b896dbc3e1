"""Ending executions: values → statements. Plain successes go in one statement, whatever the size of the batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from windlass.core.changes import (
    OUTCOME_OF,
    Ack,
    AddEvent,
    Answer,
    CountMember,
    Effect,
    RetryChild,
    Settlement,
    effect_of,
    stored_report,
)
from windlass.core.dependencies import ends_for_others
from windlass.core.eligibility import is_due
from windlass.core.guards import judge, rounds
from windlass.core.history import keeps_run
from windlass.core.rows import run_prefix
from windlass.core.settle import honour_cancel
from windlass.core.usage import late_until
from windlass.drivers.ops.dependencies import advance, count_member, hand_over
from windlass.drivers.ops.events import add
from windlass.drivers.ops.usage import days_until, watermark
from windlass.drivers.postgres import limits
from windlass.drivers.postgres.arrays import Blobs, Bools, Instants, Ints, Texts
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.postgres.jobs import insert_child
from windlass.drivers.postgres.locking import reached
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.rows import Guard, is_lean, is_limited, strings_in, to_json
from windlass.drivers.statement import Op, Row, Statement
from windlass.types import Handle, Micros

BITE: Final = 200  # rows of `move`: what it looks up in arrays of texts grows with the square of their length
Unit = tuple[int, tuple[int, Settlement]]  # (seq, (index in the batch, change))


def addressed(handles: Sequence[Handle]) -> Op[tuple[list[int], set[int]]]:
    """Handles of a claim carry the seq; a job's id is looked up. 0 is nobody. With them, those that run without a row."""
    if str not in set(map(type, handles)):
        return [handle[0] for handle in handles], {handle[0] for handle in handles if is_lean(handle)}
    ids = [handle for handle in handles if isinstance(handle, str)]
    rows = yield SQL.seqs_of(ids=Texts(ids))
    seqs, lean = {row[0]: row[1] for row in rows}, {row[1] for row in rows if row[2] is not None}
    lean.update(handle[0] for handle in handles if not isinstance(handle, str) and is_lean(handle))
    return [seqs.get(handle, 0) if isinstance(handle, str) else handle[0] for handle in handles], lean


def guards_of(seqs: Sequence[int]) -> Op[dict[int, Guard]]:
    if not seqs:
        return {}
    rows = yield SQL.guards(seqs=Ints(seqs))
    return {row[0]: Guard(*row) for row in rows}


def is_plain(change: Settlement) -> bool:
    return (
        type(change) is Ack and change.result is None and change.report is None and not change.lapsed and not change.riders
    )


def is_simple(changes: Sequence[Settlement], now: Micros) -> bool:
    """Whether one statement does it all: plain successes of jobs that claims named, each once, none with permits, none of
    long ago."""
    edge = late_until(now)
    if not all(map(is_plain, changes)) or any(change.at <= edge for change in changes):
        return False
    handles = [change.handle for change in changes]
    if str in set(map(type, handles)) or any(map(is_limited, handles)):
        return False
    return len({handle[0] for handle in handles}) == len(handles)


def ack_at_once(changes: Sequence[Settlement], now: Micros) -> Op[list[Answer | None]]:
    """One statement that commits by itself and waits for nobody, and a look at what it left. None: somebody holds that row,
    or it holds permits by now, and `settle` sees to it."""
    seqs = [change.handle[0] for change in changes]
    unkept = any(is_lean(change.handle) for change in changes)
    acked = {row[0] for row in (yield (ack_unkept if unkept else ack)(seqs, changes, now))}
    answers: list[Answer | None] = ["applied"] * len(changes)
    if len(acked) < len(seqs):
        guards = yield from guards_of([seq for seq in seqs if seq not in acked])
        for index, seq in enumerate(seqs):
            if seq not in acked:
                told = judge(guards.get(seq), token=changes[index].token, outcome="ack", lapsed=False, now=now)
                answers[index] = None if told == "applied" else told
    return answers


def ack(seqs: Sequence[int], changes: Sequence[Settlement], now: Micros, *, limited: bool = False) -> Statement:
    """`limited`: also those that hold permits, which are seen to."""
    return SQL.ack(limited=limited, now=now, **_in_order(seqs, changes))


def ack_unkept(seqs: Sequence[int], changes: Sequence[Settlement], now: Micros) -> Statement:
    """Some of them run without a row."""
    return SQL.ack_unkept(now=now, **_in_order(seqs, changes))


def _in_order(seqs: Sequence[int], changes: Sequence[Settlement]) -> dict[str, Any]:
    order = sorted(range(len(seqs)), key=seqs.__getitem__)
    tokens, which = indexed([changes[n].token for n in order])
    return {
        "seqs": Ints([seqs[n] for n in order]), "tokens": tokens, "which": which,
        "ats": Instants([changes[n].at for n in order]), "starts": Instants([changes[n].started_at or 0 for n in order]),
    }  # fmt: skip


def indexed(tokens: Sequence[str]) -> tuple[Texts, Ints]:
    """The different ones among many, and which of them each is: a batch comes from a few claims."""
    place: dict[str, int] = {}
    which = Ints([place.setdefault(token, len(place) + 1) for token in tokens])
    return Texts(place), which


def settle(changes: Sequence[Settlement], now: Micros) -> Op[list[Answer]]:
    """Any batch, in a transaction. Waits for rows that others hold."""
    answers = yield from _settle(changes, now, wait=True)
    return [answer for answer in answers if answer is not None]


def settle_free(changes: Sequence[Settlement], now: Micros) -> Op[list[Answer | None]]:
    """The same for those whose rows nobody holds and whose end touches no other job; None for the others, of which nothing
    is changed."""
    return (yield from _settle(changes, now, wait=False))


def _settle(changes: Sequence[Settlement], now: Micros, *, wait: bool) -> Op[list[Answer | None]]:
    answers: list[Answer | None] = ["applied"] * len(changes)
    seqs, lean = yield from addressed([change.handle for change in changes])
    batch = Batch(wait, lean)
    yield from lock_shared(batch, seqs, changes)
    units = list(zip(seqs, enumerate(changes), strict=True))
    freed: list[tuple[str, ...]] = []
    if not wait:
        units, freed = yield from ack_limited(batch, units, now)
        if not units:
            yield from limits.GATE.free(freed, now)
    for turn in rounds(units):
        held = yield from judged(turn, answers, now, batch)
        yield from move(batch, held, now)
        ended = [batch.awaited[seq] for seq, (_, change) in held if seq in batch.awaited and ends_for_others(change)]
        for seq, (_, change) in held:
            ended += yield from ride(seq, batch.awaited.get(seq), change, now)
        yield from add(SQL, (r for _, (_, change) in held for r in change.riders if isinstance(r, AddEvent)), now)
        yield from limits.GATE.free([*freed, *(batch.permits[seq] for seq, _ in held)], now)
        freed = []
        if ended:
            yield from advance(DIALECT, ended, now)
    yield from meter(batch.unkept)
    edge = late_until(now)
    late = [seqs[index] for index, change in enumerate(changes) if change.at <= edge and answers[index] == "applied"]
    if late:
        yield from count_late(late)
    return answers


def ack_limited(batch: Batch, units: Sequence[Unit], now: Micros) -> Op[tuple[list[Unit], list[tuple[str, ...]]]]:
    """Plain successes whose limits are held, in one statement that waits for nobody. Answers the units that are left, to be
    judged, and the permits of the others: as they were seen, because with the lease's token they do not change."""
    named = Counter(seq for seq, _ in units)
    plain = [(seq, change) for seq, (_, change) in units if named[seq] == 1 and is_plain(change)]
    plain = [(seq, change) for seq, change in plain if not batch.keeps(seq, change, now)]
    if not plain:
        return list(units), []
    acked = {row[0] for row in (yield ack([seq for seq, _ in plain], [change for _, change in plain], now, limited=True))}
    batch.unkept.update({seq: change for seq, change in plain if seq in acked and seq in batch.lean})
    return [unit for unit in units if unit[0] not in acked], [batch.seen[seq] for seq in acked if seq in batch.seen]


def meter(unkept: Mapping[int, Settlement]) -> Op[None]:
    """Store what the runs have cost of which no row is kept."""
    if unkept:
        seqs = sorted(unkept)
        reports = [stored_report(unkept[seq].report) for seq in seqs]
        yield SQL.meter(
            seqs=Ints(seqs), cpu_us=Ints(report.cpu_us for report in reports),
            peak_rss=Ints(report.peak_rss for report in reports),
        )  # fmt: skip


def count_late(seqs: Sequence[int]) -> Op[None]:
    """Runs that ended behind the watermark, where no roll-up looks again."""
    yield SQL.share_usage()
    counted = yield from watermark(SQL)
    if counted is not None:
        yield SQL.count_late(seqs=Ints(seqs), counted=counted)
        folded = yield from days_until(SQL)
        if folded is not None:
            yield SQL.count_late_days(seqs=Ints(seqs), hour=folded)


class Batch:
    """What is known of a batch while it is being settled."""

    def __init__(self, wait: bool, lean: Set[int]) -> None:
        self.wait = wait
        self.lean = lean  # these run without a row
        self.unkept: dict[int, Settlement] = {}  # those of them that have succeeded, and leave none
        self.stopping: set[str] = set()  # groups in which the end of a member may cancel others
        self.seen: dict[int, tuple[str, ...]] = {}  # permits, before their limits were held
        self.passed: set[int] = set()
        self.permits: dict[int, tuple[str, ...]] = {}  # of the leases that end
        self.awaited: dict[int, str] = {}  # ids of those that others wait for
        self.prefixes: dict[int, str] = {}  # by what the runs are known that have no row

    def keeps(self, seq: int, change: Settlement, now: Micros) -> bool:
        """Whether a run that has no row leaves one."""
        return seq in self.lean and keeps_run(change, now)

    def is_apart(self, guard: Guard, change: Settlement) -> bool:
        """Whether the change touches other jobs, for which it may have to wait."""
        if guard.awaited and (ends_for_others(change) or any(isinstance(rider, RetryChild) for rider in change.riders)):
            return True
        return any(
            isinstance(rider, CountMember) and rider.ending != "succeeded" and rider.group_id in self.stopping
            for rider in change.riders
        )


def lock_shared(batch: Batch, seqs: Sequence[int], changes: Sequence[Settlement]) -> Op[None]:
    """Everything that a batch may touch besides its jobs, before its jobs: queues, limits, groups, in this order and each
    in the order of keys. With `wait` also the jobs, and those that wait for them. Notes what it saw of them."""
    rows = yield SQL.shared_rows_of(seqs=Ints(seqs))
    groups = groups_of(rows, changes)
    batch.seen = {seq: strings_in(permits) for seq, _, permits in rows if permits is not None}
    keys = set[str]().union(*batch.seen.values())
    if any(isinstance(rider, RetryChild) for change in changes for rider in change.riders):
        places = yield SQL.places(seqs=Ints(seqs))
        yield SQL.lock_queues(names=Texts({queue for _, queue, _ in places}))
    more: set[int] = set()
    if batch.wait:
        deep = any(type(change) is not Ack for change in changes)
        more, others, theirs = yield from reached(seqs, groups if deep else (), deep=deep)
        groups, keys = groups | others, keys | theirs
    yield from limits.lock(keys)
    rules = (yield SQL.lock_groups(ids=Texts(sorted(groups)))) if groups else []
    if more:
        yield SQL.lock_jobs(seqs=Ints(sorted({*seqs, *more})))
    batch.stopping = {group_id for group_id, may_stop in rules if may_stop}


def groups_of(rows: Sequence[Row], changes: Sequence[Settlement]) -> set[str]:
    """`rows`: of `shared_rows_of`."""
    riders = (rider for change in changes for rider in change.riders)
    counted = {rider.group_id for rider in riders if isinstance(rider, CountMember)}
    return counted.union(group_id for _, group_id, _ in rows if group_id is not None)


def judged(units: Sequence[Unit], answers: list[Answer | None], now: Micros, batch: Batch) -> Op[list[Unit]]:
    """Those of the units whose guard holds, as they are to be applied: a wish to cancel may turn a change. Their rows are
    locked, and what their leases hold is noted. What others hold is passed over, and so is what comes after it for the
    same job."""
    seqs = [seq for seq, _ in units]
    take, passed = SQL.lock_guards if batch.wait else SQL.try_guards, batch.passed
    guards = {row[0]: Guard(*row) for row in (yield take(seqs=Ints(seqs)))}
    unlocked = yield from guards_of([seq for seq in seqs if seq not in guards])
    held: list[Unit] = []
    for seq, (index, change) in units:
        guard, outcome = guards.get(seq) or unlocked.get(seq), OUTCOME_OF[type(change)]
        answers[index] = judge(guard, token=change.token, outcome=outcome, lapsed=change.lapsed, now=now)
        if guard is None or answers[index] != "applied":
            continue
        if seq in unlocked or seq in passed:
            passed.add(seq)
            answers[index] = None
            continue
        wish = guard.cancel_requested_at is not None
        turned = honour_cancel(change, cancel_requested=wish, group_id=guard.group_id)
        if not batch.wait and batch.is_apart(guard, turned):
            passed.add(seq)
            answers[index] = None
            continue
        held.append((seq, (index, turned)))
        batch.permits[seq] = strings_in(guard.permits)
        if guard.awaited:
            batch.awaited[seq] = guard.id
        if seq in batch.lean:
            batch.prefixes[seq] = run_prefix(change.token, guard.claimed_at or now)
    return held


def move(batch: Batch, units: Sequence[Unit], now: Micros) -> Op[None]:
    kept = {seq for seq, (_, change) in units if batch.keeps(seq, change, now)}
    if kept:
        yield from DIALECT.keep_runs({seq: batch.prefixes[seq] for seq in kept})
    batch.unkept.update({seq: change for seq, (_, change) in units if seq in batch.lean and seq not in kept})
    apart = kept.union(batch.awaited)
    plain = [(seq, change) for seq, (_, change) in units if type(change) is Ack and change.result is None]
    plain = [(seq, change) for seq, change in plain if change.report is None and not change.lapsed and seq not in apart]
    if plain:
        yield ack([seq for seq, _ in plain], [change for _, change in plain], now, limited=True)
    done = {seq for seq, _ in plain}
    rest = [(seq, change, effect_of(change)) for seq, (_, change) in units if seq not in done]
    rest.sort(key=lambda unit: unit[0])
    for start in range(0, len(rest), BITE):
        yield moves(rest[start : start + BITE], now)


def moves(rest: Sequence[tuple[int, Settlement, Effect]], now: Micros) -> Statement:
    changes, effects = [change for _, change, _ in rest], [effect for _, _, effect in rest]
    reports = [stored_report(change.report) for change in changes]
    return SQL.move(
        now=now, seqs=Ints(seq for seq, _, _ in rest), tokens=Texts(c.token for c in changes),
        states=Texts(e.state for e in effects),
        ready=Bools(not e.keep_run_at and is_due(e.run_at, now) for e in effects),
        keep_run_at=Bools(e.keep_run_at for e in effects), run_at=Ints(e.run_at for e in effects),
        attempts=Ints(e.attempts for e in effects), skipped=Ints(e.skipped for e in effects),
        lost=Ints(e.lost for e in effects), outcomes=Texts(e.outcome for e in effects),
        starts=Ints(c.started_at for c in changes), finished_at=Ints(e.finished_at for e in effects),
        failed_at=Ints(e.failed_at for e in effects), last_errors=Texts(e.last_error for e in effects),
        results=Blobs(e.result for e in effects), dead_kinds=Texts(e.dead_kind for e in effects),
        dead_at=Ints(e.finished_at if e.state == "dead" else None for e in effects),
        dead_reasons=Texts(e.dead_reason for e in effects), superseded_by=Texts(e.superseded_by for e in effects),
        statuses=Texts(e.run_status for e in effects), ats=Ints(c.at for c in changes),
        errors=Texts(e.error for e in effects), tracebacks=Texts(r.traceback for r in reports),
        exit_codes=Ints(r.exit_code for r in reports), cpu_us=Ints(r.cpu_us for r in reports),
        peak_rss=Ints(r.peak_rss for r in reports), log_paths=Texts(r.log_path for r in reports),
        artifacts=Texts(to_json(r.artifacts) for r in reports),
    )  # fmt: skip


def ride(seq: int, awaited: str | None, change: Settlement, now: Micros) -> Op[list[str]]:
    """`awaited`: the job's id if others wait for it. Answers those that have ended with it and that others wait for."""
    ended: list[str] = []
    for rider in change.riders:
        match rider:
            case RetryChild():
                [(_, queue, priority)] = yield SQL.places(seqs=Ints([seq]))
                yield from insert_child(seq, queue, priority, rider, now)
                if awaited is not None:
                    yield from hand_over(DIALECT, awaited, rider.id, now)
            case CountMember():
                ended += yield from count_member(DIALECT, rider.group_id, rider.ending, now)
            case AddEvent():
                pass  # all events of a round are written together
    return ended


def brings_work(changes: Sequence[Settlement]) -> bool:
    """Whether something may be claimable after it that was not before."""
    return any(type(change) is not Ack or change.riders or is_limited(change.handle) for change in changes)
