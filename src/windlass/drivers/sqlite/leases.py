"""Claiming, extending and taking back: values → statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.core.admission_of_settlements import check_renewal
from windlass.core.changes import EXPIRED, storable
from windlass.core.dependencies import SWEPT
from windlass.core.eligibility import AT_ONCE, PROMOTE_BITE, first_share
from windlass.core.fields import check_lease, check_limit, check_now
from windlass.core.guards import judge, rounds
from windlass.core.limits import caps_of
from windlass.core.rows import OVERTAKEN_BY, run_prefix
from windlass.drivers.ops.admitting import Admission
from windlass.drivers.ops.dependencies import pay
from windlass.drivers.ops.events import announce
from windlass.drivers.ops.holds import end_stale
from windlass.drivers.rows import all_claimed_in, strings_in, strings_out, to_json, undecided_in
from windlass.drivers.sqlite.dialect import DIALECT
from windlass.drivers.sqlite.limits import GATE, SqlitePicking
from windlass.drivers.sqlite.settlement import addressed, guards_of
from windlass.drivers.sqlite.sql import SQL
from windlass.drivers.statement import Op, Row, Statement
from windlass.drivers.values import Claim, Extended, Renewal
from windlass.types import Claimed, Micros


def claim(wish: Claim, now: Micros, *, again: bool = False) -> Op[tuple[list[Row], bool]]:
    """Claim jobs in one transaction. Returns them as rows, which `claimed_of` turns into values when nobody has to wait
    for it, and whether there may be more: it stopped at what one transaction may do."""
    queues = list(dict.fromkeys(wish.queues))
    [(lapsed, due, special, closed)] = yield SQL.glance(queues=to_json(queues), now=now)
    if lapsed and wish.reclaim and (yield from take_back(queues, now, AT_ONCE)) == AT_ONCE:
        return [], True
    if closed:
        if wish.reclaim:
            yield from end_stale(DIALECT, queues, wish.worker_id, now)
        queues = [row[0] for row in (yield SQL.open_queues(queues=to_json(queues)))]
    if due and not (yield from promote(queues, now)):
        return [], True
    prefix = run_prefix(wish.token, now)
    if special:
        return (yield from claim_with_permits(queues, wish, prefix, now, again=again))
    if len(queues) == 1:
        rows = yield pick_rows(queues[0], wish)
    else:
        rows = yield from rows_of((yield from pick(queues, wish)))
    return (yield from lease(rows, wish, prefix, now)), False


def claim_with_permits(
    queues: list[str], wish: Claim, prefix: str, now: Micros, *, again: bool
) -> Op[tuple[list[Row], bool]]:
    """There are limits, or queues that take turns."""
    yield from GATE.let_through([row[0] for row in (yield SQL.woken(now=now))], now)
    picking = SqlitePicking(wish, [row[0] for row in (yield SQL.fair_queues())])
    admission, taken = Admission(GATE, now, again=again), list[Row]()
    books, caps = admission.books, {key for queue in queues for key in caps_of(queue)}
    admission.open((yield from GATE.limits(caps)), caps)
    while len(taken) < wish.limit and not admission.is_full:
        wanted = wish.limit - len(taken)
        picked = yield from picking.pick({queue: books.cap(queue) for queue in queues}, wanted, admission.ahead)
        if not picked:
            break
        unseen = admission.unseen(picked)
        if unseen:
            admission.open((yield from GATE.limits(unseen)), unseen)
        considered, permits = yield from admission.admit(picked, wanted)
        picking.served(picked[:considered], permits)
        known = {one.seq: one.row for one in picked[:considered] if one.row}
        taken += yield from lease((yield from rows_of(list(permits), known)), wish, prefix, now, permits)
    for queue, clock, charges in picking.charges():
        yield SQL.charge_share.many([(queue, share, clock, start, finish) for share, start, finish in charges])
    if taken or admission.is_full:
        return taken, admission.is_full
    return taken, (yield from GATE.go_on([queue for queue in queues if books.cap(queue) != 0], now))


def rows_of(seqs: Sequence[int], known: Mapping[int, Row] | None = None) -> Op[list[Row]]:
    """The rows of these jobs in the given order, which a select does not promise but the contract does. Known rows are
    not read again."""
    by_seq = dict(known or {})
    unknown = [seq for seq in seqs if seq not in by_seq]
    if unknown:
        by_seq.update((row[0], row) for row in (yield SQL.picked(seqs=to_json(unknown))))
    return [by_seq[seq] for seq in seqs]


def promote(queues: list[str], now: Micros) -> Op[bool]:
    """Whether all that is due is ready now: nothing may be taken before, so that the order is total over all due jobs."""
    names = to_json(queues)
    for _ in range(AT_ONCE // PROMOTE_BITE):
        if len((yield SQL.promote(queues=names, now=now, bite=PROMOTE_BITE))) < PROMOTE_BITE:
            return True
    return False


def pick_rows(queue: str, wish: Claim) -> Statement:
    if wish.types is None and not wish.unhandled:
        return SQL.pick_rows(queue=queue, limit=wish.limit)
    return SQL.pick_rows_types(queue=queue, limit=wish.limit, types=types_of(wish), unhandled=wish.unhandled)


def types_of(wish: Claim) -> str | None:
    return None if wish.types is None else to_json(wish.types)


def pick(queues: list[str], wish: Claim) -> Op[list[int]]:
    """The first wanted jobs over all these queues, in dispatch order.

    At first a few of each, for they are shared by many; then all that may be wanted of those queues that had no more than
    these few before the last of the first."""
    each = first_share(wish.limit, len(queues))
    found = sorted((yield heads(queues, wish, each)))
    if each < wish.limit:
        deep = {key for key, count in Counter(row[4] for row in found[: wish.limit]).items() if count == each}
        if deep:
            found = [row for row in found if row[4] not in deep]
            found = sorted(found + (yield heads([queues[key] for key in deep], wish, wish.limit)))
    return [row[3] for row in found[: wish.limit]]


def heads(queues: Sequence[str], wish: Claim, each: int) -> Statement:
    if wish.types is None and not wish.unhandled:
        return SQL.pick(queues=to_json(queues), each=each)
    return SQL.pick_types(queues=to_json(queues), each=each, types=types_of(wish), unhandled=wish.unhandled)


def lease(
    rows: list[Row], wish: Claim, prefix: str, now: Micros, permits: Mapping[int, tuple[str, ...]] | None = None
) -> Op[list[Row]]:
    """Lease the picked rows, in their order, with the permits they got."""
    if not rows:
        return []
    seqs = to_json([row[0] for row in rows])
    about: dict[str, Any] = {
        "token": wish.token, "expires_at": now + wish.lease_for, "worker_id": wish.worker_id, "now": now,
        "started_at": now if wish.start else None,
    }  # fmt: skip
    if permits and any(permits.values()):
        rows = [(*row[:-2], strings_out(permits[row[0]]), row[-1]) for row in rows]
        [(claimed,)] = yield SQL.claim_limited.counted(items=to_json({row[0]: row[-2] for row in rows}), **about)
    else:
        [(claimed,)] = yield SQL.claim.counted(seqs=seqs, **about)
    assert claimed == len(rows), "a picked row was not queued any more, inside one write transaction"
    yield SQL.insert_runs(seqs=seqs, prefix=prefix)
    return rows


def claimed_of(rows: list[Row], wish: Claim, now: Micros) -> list[Claimed]:
    return all_claimed_in(rows, run_prefix(wish.token, now), wish.token, now, now + wish.lease_for)


def take_back(queues: list[str], now: Micros, limit: int | None = None) -> Op[int]:
    """Expire every lapsed lease of these queues that needs no decision (or the first `limit`)."""
    names, count = to_json(queues), 0
    while limit is None or count < limit:
        bite = PROMOTE_BITE if limit is None else min(PROMOTE_BITE, limit - count)
        held = yield SQL.lapsed(queues=names, now=now, bite=bite)
        if not held:
            break
        unkept = {seq: run_prefix(token, claimed_at) for _, seq, history, token, claimed_at in held if history is not None}
        if unkept:
            yield SQL.keep_runs(items=to_json(unkept))
        seqs = to_json([row[1] for row in held])
        rows = yield SQL.expire(seqs=seqs, now=now)
        yield SQL.close_expired(seqs=seqs, error=EXPIRED, now=now)
        yield from GATE.free([strings_in(row[0]) for row in held], now)
        yield from announce(SQL, rows, now)
        count += len(held)
        if len(held) < bite:
            break
    return count


def expire(now: Micros, limit: int) -> Op[tuple[int, int, list[Claimed]]]:
    """How many were taken back, how many dependants of ended jobs were told of it late, and what needs a decision."""
    check_now(now)
    check_limit(limit)
    queues = yield SQL.leased_queues()
    count = yield from take_back([row[0] for row in queues], now, limit)
    paid = yield from pay(DIALECT, now, SWEPT)
    rows = yield SQL.undecided(now=now, limit=limit)
    return count, paid, [undecided_in(row) for row in rows]


def extend(renewals: Sequence[Renewal], lease_for: Micros, now: Micros) -> Op[list[Extended]]:
    check_lease(lease_for)
    check_now(now)
    for renewal in renewals:
        check_renewal(renewal)
    answers: dict[int, Extended] = {}
    seqs, _ = yield from addressed([renewal.handle for renewal in renewals])
    for turn in rounds(zip(seqs, enumerate(renewals), strict=True)):
        items = to_json(
            [
                (seq, r.token, r.started_at, r.progress, r.progress_note and storable(r.progress_note))
                for seq, (_, r) in turn
            ]
        )
        rows = yield SQL.extend(items=items, expires_at=now + lease_for, now=now, overtaken_by=OVERTAKEN_BY)
        done = {seq: (until, bool(wish)) for seq, until, wish in rows}
        begun = [(seq, r.token, r.started_at) for seq, (_, r) in turn if r.started_at is not None and seq in done]
        if begun:
            yield SQL.begin_runs(items=to_json(begun))
        refused = [(seq, index, r) for seq, (index, r) in turn if seq not in done]
        guards = yield from guards_of([seq for seq, _, _ in refused])
        for seq, (index, _) in turn:
            if seq in done:
                answers[index] = Extended("applied", *done[seq])
        for seq, index, r in refused:
            answers[index] = Extended(judge(guards.get(seq), token=r.token, outcome=None, lapsed=False, now=now))
    return [answers[index] for index in range(len(renewals))]
