"""Ending executions: values → statements. Plain successes go in one statement, whatever the size of the batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from windlass.core.changes import (
    OUTCOME_OF,
    Ack,
    AddEvent,
    Answer,
    CountMember,
    Effect,
    Report,
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
from windlass.drivers.rows import Guard, is_lean, is_limited, strings_in, to_json
from windlass.drivers.sqlite.dialect import DIALECT
from windlass.drivers.sqlite.jobs import insert_children
from windlass.drivers.sqlite.limits import GATE
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Block, Op, Row
from windlass.types import Handle, Micros

Unit = tuple[int, tuple[int, Settlement]]  # (seq, (index in the batch, change))


def addressed(handles: Sequence[Handle]) -> Op[tuple[list[int], set[int]]]:
    """Handles of a claim carry the seq; a job's id is looked up. 0 is nobody. With them, those that run without a row."""
    if str not in set(map(type, handles)):
        return [handle[0] for handle in handles], {handle[0] for handle in handles if len(handle) > 2 and is_lean(handle)}
    ids = [handle for handle in handles if isinstance(handle, str)]
    rows = yield SQL.seqs_of(ids=to_json(ids))
    seqs, lean = {row[0]: row[1] for row in rows}, {row[1] for row in rows if row[2] is not None}
    lean.update(handle[0] for handle in handles if not isinstance(handle, str) and is_lean(handle))
    return [seqs.get(handle, 0) if isinstance(handle, str) else handle[0] for handle in handles], lean


def guards_of(seqs: Sequence[int]) -> Op[dict[int, Guard]]:
    if not seqs:
        return {}
    rows = yield SQL.guards(seqs=to_json(seqs))
    return {row[0]: Guard(*row) for row in rows}


def settle(changes: Sequence[Settlement], now: Micros) -> Op[list[Answer]]:
    answers: list[Answer] = ["applied"] * len(changes)
    seqs, lean = yield from addressed([change.handle for change in changes])
    if len(set(seqs)) == len(seqs):
        yield from settle_round(seqs, range(len(changes)), changes, lean, answers, now)
    else:
        for turn in rounds((seq, index) for index, seq in enumerate(seqs)):
            yield from settle_round(seqs, [index for _, index in turn], changes, lean, answers, now)
    if lean:
        ended = ((seqs[index], changes[index]) for index, answer in enumerate(answers) if answer == "applied")
        unkept = [(seq, change) for seq, change in ended if seq in lean and not keeps_run(change, now)]
        if unkept:
            yield SQL.meter(items=to_json({seq: spent(change) for seq, change in unkept}))
    edge = late_until(now)
    late = [index for index, change in enumerate(changes) if change.at <= edge]
    if late:
        yield from count_late([seqs[index] for index in late if answers[index] == "applied"])
    return answers


def count_late(seqs: Sequence[int]) -> Op[None]:
    """Runs that ended behind the watermark, where no roll-up looks again."""
    counted = yield from watermark(SQL)
    if counted is not None and seqs:
        yield SQL.count_late(seqs=to_json(seqs), counted=counted)
        folded = yield from days_until(SQL)
        if folded is not None:
            yield SQL.count_late_days(seqs=to_json(seqs), hour=folded)


def settle_round(
    seqs: Sequence[int], turn: Sequence[int], changes: Sequence[Settlement], lean: Set[int], answers: list[Answer],
    now: Micros,
) -> Op[None]:  # fmt: skip
    """Units that name different jobs: the guarded moves first, then the riders of those that held, in their order; last,
    what the ended leases held goes back."""
    plain: dict[str, dict[int, Micros]] = {}
    begun: dict[str, dict[int, str]] = {}
    rest: list[int] = []
    ridden: dict[int, Settlement] = {}
    for index in turn:
        change = changes[index]
        if (
            type(change) is not Ack
            or change.result is not None
            or change.report is not None
            or change.lapsed
            or (seqs[index] in lean and keeps_run(change, now))
        ):
            rest.append(index)
        elif change.started_at is None:
            plain.setdefault(change.token, {})[seqs[index]] = change.at
        else:
            begun.setdefault(change.token, {})[seqs[index]] = f"{change.at:018d}{change.started_at:018d}"
        if change.riders:
            ridden[index] = change
    permits = yield from permits_of(changes, turn, (*plain.values(), *begun.values()))
    refused: set[int] = set()
    held: list[Unit] = []
    awaited: dict[int, str] = {}
    for token, ends in plain.items():
        refused.update((yield from ack(SQL.ack, SQL.close_acked, token, ends, lean, bool(permits), now)))
    for token, spans in begun.items():
        refused.update((yield from ack(SQL.ack_begun, SQL.close_begun, token, spans, lean, bool(permits), now)))
    freed = [held for seq, held in permits.items() if seq not in refused]
    if refused:
        rest = sorted({*rest, *(index for index in turn if seqs[index] in refused)})
    if rest:
        units = [(seqs[index], (index, changes[index])) for index in rest]
        found = yield from judged(units, lean, answers, now)
        held, awaited = found.held, found.awaited
        freed += found.permits
        yield from move(held, found.unkept, now)
        for index in rest:
            ridden.pop(index, None)
        ridden |= {index: change for _, (index, change) in held if change.riders}
    ended: list[str] = []
    for index in sorted(ridden):
        ended += yield from ride(seqs[index], awaited.get(seqs[index]), ridden[index], now)
    yield from add(SQL, (r for index in sorted(ridden) for r in ridden[index].riders if isinstance(r, AddEvent)), now)
    yield from GATE.free(freed, now)
    ended += [awaited[seq] for seq, (_, change) in held if seq in awaited and ends_for_others(change)]
    if ended:
        yield from advance(DIALECT, ended, now)


def permits_of(
    changes: Sequence[Settlement], turn: Sequence[int], plain: Sequence[Mapping[int, Any]]
) -> Op[dict[int, tuple[str, ...]]]:
    """The permits that the leases of plain successes hold. Read only if a claim said that one of them has some; if
    another has them all the same, `ack` refuses it and it is judged."""
    if not any(is_limited(changes[index].handle) for index in turn):
        return {}
    rows = yield SQL.permits_of(seqs=to_json([seq for ends in plain for seq in ends]))
    return {seq: strings_in(text) for seq, text in rows}


def ack(
    update: Block, close: Block, token: str, items: Mapping[int, Any], lean: Set[int], limited: bool, now: Micros
) -> Op[Iterable[int]]:
    """All plain successes of one claim, in two statements. Should the fence refuse a single one, none of them is written
    and all are answered, to be judged one by one: that is rare, and asking which ones were would cost every batch."""
    text = to_json(items)
    yield SQL.try_ack()
    [(held,)] = yield update.counted(items=text, token=token, limited=limited, now=now)
    if held < len(items):
        yield SQL.undo_ack()
        yield SQL.end_ack()
        return items
    rows = {seq: item for seq, item in items.items() if seq not in lean} if lean else items
    if rows:
        text = to_json(rows) if lean else text
        [(closed,)] = yield close.counted(items=text)
        if closed < len(rows):
            yield SQL.close_unstarted(items=text)
    yield SQL.end_ack()
    return ()


class Judged(NamedTuple):
    """The units whose guard holds, as they are to be applied."""

    held: list[Unit]
    permits: list[tuple[str, ...]]  # that their leases hold
    awaited: dict[int, str]  # ids of those that others wait for
    unkept: dict[int, str]  # by what the runs are known that have no row yet and must leave one


def judged(units: Sequence[Unit], lean: Set[int], answers: list[Answer], now: Micros) -> Op[Judged]:
    """A wish to cancel may turn a change."""
    guards = yield from guards_of([seq for seq, _ in units])
    found = Judged([], [], {}, {})
    for seq, (index, change) in units:
        guard, outcome = guards.get(seq), OUTCOME_OF[type(change)]
        answers[index] = judge(guard, token=change.token, outcome=outcome, lapsed=change.lapsed, now=now)
        if guard is not None and answers[index] == "applied":
            wish = guard.cancel_requested_at is not None
            turned = honour_cancel(change, cancel_requested=wish, group_id=guard.group_id)
            found.held.append((seq, (index, turned)))
            found.permits.append(strings_in(guard.permits))
            if guard.awaited:
                found.awaited[seq] = guard.id
            if seq in lean and keeps_run(turned, now):
                found.unkept[seq] = run_prefix(change.token, guard.claimed_at or now)
    return found


def spent(change: Settlement) -> tuple[int | None, int | None] | None:
    """What a run adds to the usage besides its times: CPU and memory."""
    report = None if change.report is None else stored_report(change.report)
    return None if report is None else (report.cpu_us, report.peak_rss)


def move(units: Sequence[Unit], unkept: Mapping[int, str], now: Micros) -> Op[None]:
    if not units:
        return
    if unkept:
        yield SQL.keep_runs(items=to_json(unkept))
    effects = [(seq, change, effect_of(change)) for seq, (_, change) in units]
    yield SQL.move.many([_move_row(seq, change, effect, now) for seq, change, effect in effects])
    reports = [_report_row(seq, stored_report(c.report)) for seq, c, _ in effects if c.report is not None]
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
        report.traceback, report.exit_code, report.cpu_us, report.peak_rss,
        report.log_path, to_json(report.artifacts), seq,
    )  # fmt: skip


def ride(seq: int, awaited: str | None, change: Settlement, now: Micros) -> Op[list[str]]:
    """`awaited`: the job's id if others wait for it. Answers those that have ended with it and that others wait for."""
    ended: list[str] = []
    for rider in change.riders:
        match rider:
            case RetryChild():
                [(queue, priority)] = yield SQL.place(seq=seq)
                yield from insert_children([(seq, queue, priority, rider)], now)
                if awaited is not None:
                    yield from hand_over(DIALECT, awaited, rider.id, now)
            case CountMember():
                ended += yield from count_member(DIALECT, rider.group_id, rider.ending, now)
            case AddEvent():
                pass  # all events of a round are written together
    return ended
