"""Ending executions: values → statements. Plain successes go in one statement, whatever the size of the batch."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.core.changes import (
    OUTCOME_OF,
    Ack,
    AddEvent,
    Answer,
    CountMember,
    Effect,
    FreePermits,
    Report,
    RetryChild,
    Settlement,
    effect_of,
    storable,
)
from windlass.core.eligibility import is_due
from windlass.core.guards import judge, rounds
from windlass.core.settle import honour_cancel
from windlass.drivers.sqlite.jobs import insert_children
from windlass.drivers.sqlite.limits import free_permits
from windlass.drivers.sqlite.rows import Guard, to_json
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op, Row
from windlass.types import Handle, Micros

Unit = tuple[int, tuple[int, Settlement]]  # (seq, (index in the batch, change))


def addressed(handles: Sequence[Handle]) -> Op[list[int]]:
    """Handles of a claim carry the seq; a job's id is looked up. 0 is nobody."""
    ids = [handle for handle in handles if isinstance(handle, str)]
    if not ids:
        return [handle[0] for handle in handles]
    rows = yield SQL.seqs_of(ids=to_json(ids))
    seqs = {row[0]: row[1] for row in rows}
    return [seqs.get(handle, 0) if isinstance(handle, str) else handle[0] for handle in handles]


def guards_of(seqs: Sequence[int]) -> Op[dict[int, Guard]]:
    if not seqs:
        return {}
    rows = yield SQL.guards(seqs=to_json(seqs))
    return {row[0]: Guard(*row) for row in rows}


def settle(changes: Sequence[Settlement], now: Micros) -> Op[list[Answer]]:
    answers: list[Answer] = ["applied"] * len(changes)
    seqs = yield from addressed([change.handle for change in changes])
    units = list(zip(seqs, enumerate(changes), strict=True))
    for turn in [units] if len(set(seqs)) == len(seqs) else rounds(units):
        yield from settle_round(turn, answers, now)
    return answers


def settle_round(units: Sequence[Unit], answers: list[Answer], now: Micros) -> Op[None]:
    """Units that name different jobs: the guarded moves first, then the riders of those that held, in their order."""
    plain = [unit for unit in units if is_plain(unit[1][1])]
    done = (yield from ack(plain, now)) if plain else set[int]()
    rest = [unit for unit in units if unit[0] not in done]
    ridden = [unit for unit in plain if unit[1][1].riders and unit[0] in done] if done else []
    if rest:
        guards = yield from guards_of([seq for seq, _ in rest])
        moved: list[Unit] = []
        for seq, (index, change) in rest:
            guard = guards.get(seq)
            answers[index] = judge(
                guard, token=change.token, outcome=OUTCOME_OF[type(change)], lapsed=change.lapsed, now=now
            )
            if guard is not None and answers[index] == "applied":
                cancel_requested = guard.cancel_requested_at is not None
                change = honour_cancel(change, cancel_requested=cancel_requested, group_id=guard.group_id)
                moved.append((seq, (index, change)))
        yield from move(moved, now)
        ridden += [unit for unit in moved if unit[1][1].riders]
    if ridden:
        ridden.sort(key=lambda unit: unit[1][0])
        yield from ride(ridden, now)


def is_plain(change: Settlement) -> bool:
    return type(change) is Ack and change.result is None and change.report is None and not change.lapsed


def ack(units: Sequence[Unit], now: Micros) -> Op[set[int]]:
    items = [(seq, change.token, change.at, change.started_at) for seq, (_, change) in units]
    text = to_json(items)
    rows = yield SQL.ack(items=text, now=now)
    done = {row[0] for row in rows}
    if done:
        if len(done) < len(items):
            text = to_json([item for item in items if item[0] in done])
        yield SQL.close_acked(items=text)
    return done


def move(units: Sequence[Unit], now: Micros) -> Op[None]:
    if not units:
        return
    effects = [(seq, change, effect_of(change)) for seq, (_, change) in units]
    yield SQL.move.many([_move_row(seq, change, effect, now) for seq, change, effect in effects])
    reports = [_report_row(seq, change.report) for seq, change, _ in effects if change.report is not None]
    if reports:
        yield SQL.report.many(reports)
    yield SQL.close_run.many([(e.run_status, c.at, c.started_at, e.error, seq) for seq, c, e in effects])


def _move_row(seq: int, change: Settlement, effect: Effect, now: Micros) -> Row:
    """The parameters of `move`, in their order."""
    ready = not effect.keep_run_at and is_due(effect.run_at, now)
    dead_at = effect.finished_at if effect.state == "dead" else None
    return (
        effect.state, effect.finished_at, ready, effect.keep_run_at, now, effect.run_at, effect.attempts,
        effect.skipped, effect.lost, change.token, effect.outcome, change.started_at, effect.failed_at,
        effect.last_error, effect.result, effect.dead_kind, dead_at, effect.dead_reason, effect.superseded_by, seq,
    )  # fmt: skip


def _report_row(seq: int, report: Report) -> Row:
    return (
        report.traceback and storable(report.traceback), report.exit_code, report.cpu_us, report.peak_rss,
        report.log_path, to_json(report.artifacts), seq,
    )  # fmt: skip


def ride(units: Sequence[Unit], now: Micros) -> Op[None]:
    for seq, (_, change) in units:
        for rider in change.riders:
            match rider:
                case RetryChild():
                    [(queue, priority)] = yield SQL.place(seq=seq)
                    yield from insert_children([(seq, queue, priority, rider)], now)
                case CountMember():
                    yield SQL.count_member(group_id=rider.group_id, ending=rider.ending, now=now)
                case FreePermits():
                    yield from free_permits(rider.keys, now)
                case AddEvent():
                    yield SQL.add_event(
                        event=rider.event, job_id=rider.job_id, org_id=rider.org_id, body=rider.body, now=now
                    )
