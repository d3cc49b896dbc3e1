"""Claiming, extending and taking back: values → statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

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
from windlass.drivers.postgres.arrays import Floats, Ints, Texts
from windlass.drivers.postgres.cursor import Span
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.postgres.faults import Taken
from windlass.drivers.postgres.limits import GATE, Locked, PostgresPicking
from windlass.drivers.postgres.settlement import addressed, guards_of, indexed
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.rows import all_claimed_in, strings_in, to_json, undecided_in
from windlass.drivers.statement import Op, Row, Statement, T
from windlass.drivers.values import Claim, Extended, Renewal
from windlass.types import Claimed, Micros

# What a claim answers before its rows
NOTHING_ELSE: Final = 0
MAINTENANCE: Final = 1  # leases to take back or jobs to promote first
LIMITED: Final = 2  # there are limits that concern it, or turns
CONTENDED: Final = 3  # others hold what stands first
TRIES: Final = 5
OPENED: Final = "from leased where history is null"  # with these words a claim of any kind writes its runs


def claim_at_once(wish: Claim, now: Micros) -> Op[tuple[list[Claimed], int]]:
    """Claim with one statement that commits by itself. Returns the jobs, and what prevented it from getting all."""
    rows = yield from beside_hands(claim_statement(wish, now))
    todo = rows[0][0] if rows else NOTHING_ELSE
    if not rows or rows[0][1] is None:
        return [], todo
    return claimed(rows, wish, now), todo


def is_hand_made(taken: Taken) -> bool:
    """Whether a run has the number of one that a claim begins: somebody wrote it by SQL."""
    return taken.constraint == "runs_pkey"


def beside_hands(statement: Statement) -> Op[list[Row]]:
    """A claim that commits by itself; once more where it meets such a run."""
    try:
        return (yield statement)
    except Taken as taken:
        if not is_hand_made(taken):
            raise
        return (yield _leaving(statement))


def leaving_runs(claim: Op[T]) -> Op[T]:
    """A claim that leaves such runs as they are. If all did, each run that is begun would cost a record in the log more."""
    try:
        statement = next(claim)
        while True:
            try:
                rows = yield _leaving(statement)
            except BaseException as error:
                statement = claim.throw(error)
            else:
                statement = claim.send(rows)
    except StopIteration as done:
        answer: T = done.value
        return answer


def _leaving(statement: Statement) -> Statement:
    if OPENED not in statement.sql:
        return statement
    return Statement(statement.sql.replace(OPENED, f"{OPENED} on conflict do nothing"), statement.params)


def claim_statement(wish: Claim, now: Micros, *, look: bool = True) -> Statement:
    queues = list(dict.fromkeys(wish.queues))
    params: dict[str, Any] = {
        "types": None if wish.types is None else Texts(wish.types), "unhandled": wish.unhandled, "limit": wish.limit,
        "reclaim": wish.reclaim, "look": look, "token": wish.token, "worker_id": wish.worker_id, "now": now,
        "expires_at": now + wish.lease_for, "started_at": now if wish.start else None,
        "prefix": run_prefix(wish.token, now),
    }  # fmt: skip
    if len(queues) == 1:
        return SQL.claim_one(queue=queues[0], **params)
    return SQL.claim_many(queues=Texts(queues), each=first_share(wish.limit, len(queues)), **params)


def claim_short(wish: Claim, now: Micros, spans: Sequence[Span]) -> Op[tuple[list[Claimed], dict[int, int], int]]:
    """Claim from the floors of a cursor. Returns the jobs, the last position by priority, and what prevented it from
    getting any."""
    statement = SQL.claim_short(
        queue=wish.queues[0], lows=Ints(span.low for span in spans), highs=Ints(span.high for span in spans),
        floors=Ints(span.floor for span in spans), types=None if wish.types is None else Texts(wish.types),
        unhandled=wish.unhandled, limit=wish.limit, token=wish.token, worker_id=wish.worker_id, now=now,
        expires_at=now + wish.lease_for, started_at=now if wish.start else None, prefix=run_prefix(wish.token, now),
    )  # fmt: skip
    rows = yield from beside_hands(statement)
    todo = rows[0][0] if rows else NOTHING_ELSE
    if not rows or rows[0][1] is None:
        return [], {}, todo
    taken = all_claimed_in(rows, run_prefix(wish.token, now), wish.token, now, now + wish.lease_for, first=2)
    reached = {job.priority: row[1] for job, row in zip(taken, rows, strict=True)}  # they come in order
    return taken, reached, todo


def claimed(rows: list[Row], wish: Claim, now: Micros) -> list[Claimed]:
    return all_claimed_in(rows, run_prefix(wish.token, now), wish.token, now, now + wish.lease_for, first=1)


def claimed_before(wish: Claim, now: Micros) -> Op[list[Claimed]]:
    """The jobs of a claim whose reply was lost."""
    rows = yield SQL.claimed_before(queues=Texts(wish.queues), expires_at=now + wish.lease_for, token=wish.token)
    return claimed(rows, wish, now)


class Took(NamedTuple):
    """What a transaction has claimed."""

    jobs: list[Claimed]
    limited: bool = False  # it met limits or turns
    more: bool = False  # it has done as much as it may before the end of what is due or ready: see `Admission`


def claim_quickly(wish: Claim, now: Micros) -> Op[Took | None]:
    taken, todo = yield from claim_at_once(wish, now)
    return Took(taken) if taken or todo == NOTHING_ELSE else None


def claim(wish: Claim, now: Micros) -> Op[list[Claimed]]:
    return (yield from claim_whole(wish, now)).jobs


def claim_whole(wish: Claim, now: Micros, *, again: bool = False) -> Op[Took]:
    """Claim in a transaction: take back, promote, pick, take permits or park, lease. With `again`, go on where one
    stopped."""
    queues = list(dict.fromkeys(wish.queues))
    [(lapsed, limited, stale)] = yield SQL.glance(queues=Texts(queues), now=now)
    locked = Locked()
    if stale and wish.reclaim:
        yield from end_stale(DIALECT, queues, wish.worker_id, now)
    if lapsed and wish.reclaim and (yield from take_back(queues, now, locked, AT_ONCE)) == AT_ONCE:
        return Took([], more=True)
    queues = [row[0] for row in (yield SQL.open_queues(queues=Texts(queues)))]
    if not queues:
        if limited:  # else who has seen that a token is there comes back for it at once, again and again
            yield from wake(now, locked)
        return Took([])
    if not (yield from promote(queues, now)):
        return Took([], more=True)
    if limited:
        return (yield from claim_with_permits(queues, wish, now, locked, again=again))
    rows = yield claim_statement(wish, now, look=False)
    if rows and rows[0][0] == LIMITED:  # since a moment ago
        return (yield from claim_with_permits(queues, wish, now, locked, again=again))
    return Took(claimed(rows, wish, now) if rows and rows[0][1] is not None else [])


def claim_with_permits(queues: list[str], wish: Claim, now: Micros, locked: Locked, *, again: bool) -> Op[Took]:
    """Candidates and their keys are read without locks; then limits are locked, then those candidates that are still
    there. Others who claim at the same time wait at the limits they share, and nowhere else. What others hold, or
    cannot be waited for, is passed over."""
    yield from wake(now, locked)
    fair = {row[0] for row in (yield SQL.fair_queues())}.intersection(queues)
    picking, admission = PostgresPicking(wish, list(fair)), Admission(GATE, now, again=again)
    books, taken = admission.books, list[Claimed]()
    books.open((yield from GATE.limits(key for queue in queues for key in caps_of(queue))).values())
    missed = 0
    while len(taken) < wish.limit and missed < TRIES and not admission.is_full:
        wanted = wish.limit - len(taken)
        picked = yield from picking.pick({queue: books.cap(queue) for queue in queues}, wanted, admission.ahead)
        if not picked:
            break
        unseen = admission.unseen(picked)
        limits, elsewhere = (yield from locked.lock(unseen)) if unseen else ({}, set())
        admission.open(limits, unseen - elsewhere)
        usable = picked
        if elsewhere:
            usable = [one for one in picked if elsewhere.isdisjoint((*one.keys, *caps_of(one.queue)))]
        reached = admission.reach(usable, wanted)  # no more are locked than are needed
        if reached < len(usable):
            picked, usable = picked[: picked.index(usable[reached])], usable[:reached]
        still = {row[0] for row in (yield SQL.take(seqs=Ints(one.seq for one in usable)))}
        missed += len(still) < len(picked)
        picking.passed += [one.seq for one in picked if one.seq not in still]
        there = [one for one in picked if one.seq in still]
        considered, permits = yield from admission.admit(there, wanted)
        picking.served(there[:considered], permits)
        taken += yield from lease(permits, wish, now)
    yield from picking.charge()
    more = admission.is_full
    if not taken and not more:
        more = yield from GATE.go_on([queue for queue in queues if books.cap(queue) != 0], now)
    return Took(taken, bool(fair or books), more)


def wake(now: Micros, locked: Locked) -> Op[None]:
    """Let jobs through that wait for a token that is available by now."""
    woken = [row[0] for row in (yield SQL.woken(now=now))]
    if woken:
        limits, _ = yield from locked.lock(woken)
        yield from GATE.let_through(limits, now)


def lease(permits: Mapping[int, tuple[str, ...]], wish: Claim, now: Micros) -> Op[list[Claimed]]:
    """Lease rows that are locked, in their order, with the permits they got."""
    if not permits:
        return []
    rows = yield SQL.claim(
        seqs=Ints(permits), permits=to_json({seq: held for seq, held in permits.items() if held}), token=wish.token,
        expires_at=now + wish.lease_for, worker_id=wish.worker_id, now=now,
        started_at=now if wish.start else None, prefix=run_prefix(wish.token, now),
    )  # fmt: skip
    by_seq = {row[1]: row for row in rows}  # an update promises no order, the contract does
    return claimed([by_seq[seq] for seq in permits], wish, now)


def promote(queues: list[str], now: Micros) -> Op[bool]:
    """Whether all that is due is ready now: nothing may be taken before, so that the order is total over all due jobs."""
    names = Texts(queues)
    for _ in range(AT_ONCE // PROMOTE_BITE):
        if len((yield SQL.promote(queues=names, now=now, bite=PROMOTE_BITE))) < PROMOTE_BITE:
            return True
    return False


def take_back(queues: list[str], now: Micros, locked: Locked, limit: int | None = None) -> Op[int]:
    """Expire every lapsed lease of these queues that needs no decision (or the first `limit`)."""
    names, count = Texts(queues), 0
    while limit is None or count < limit:
        bite = PROMOTE_BITE if limit is None else min(PROMOTE_BITE, limit - count)
        rows = yield SQL.lapsed(queues=names, now=now, bite=bite)
        if not rows:
            break
        _, elsewhere = yield from locked.lock(key for row in rows for key in strings_in(row[1]))
        free = sorted(row for row in rows if elsewhere.isdisjoint(strings_in(row[1])))
        prefixes = Texts(run_prefix(row[3], row[4]) if row[2] is not None else None for row in free)
        expired = yield SQL.expire(seqs=Ints(row[0] for row in free), prefixes=prefixes, now=now, error=EXPIRED)
        yield from GATE.free([strings_in(row[1]) for row in expired], now)
        if expired:
            yield from announce(SQL, expired, now)
        count += len(expired)
        if len(rows) < bite or not expired:
            break
    return count


def expire(now: Micros, limit: int) -> Op[tuple[int, int, list[Claimed]]]:
    """The sweep. Returns how many jobs were taken back, how many waiting jobs were told late, and the jobs that need a
    decision."""
    check_now(now)
    check_limit(limit)
    count, rows = 0, list[Row]()
    queues = [row[0] for row in (yield SQL.leased_queues())]
    if queues:
        count = yield from take_back(queues, now, Locked(), limit)
        rows = yield SQL.undecided(queues=Texts(queues), now=now, limit=limit)
    paid = yield from pay(DIALECT, now, SWEPT)  # last: it waits for nobody, and limits come before groups
    return count, paid, [undecided_in(row) for row in rows]


def extend(renewals: Sequence[Renewal], lease_for: Micros, now: Micros) -> Op[list[Extended]]:
    """Each statement commits by itself. A row that somebody holds for a moment is asked for again; one that is held for
    longer keeps the lease it has, which the answer tells."""
    check_lease(lease_for)
    check_now(now)
    for renewal in renewals:
        check_renewal(renewal)
    answers: dict[int, Extended] = {}
    seqs, _ = yield from addressed([renewal.handle for renewal in renewals])
    for turn in rounds(zip(seqs, enumerate(renewals), strict=True)):
        left = list(turn)
        for _ in range(TRIES):
            done = {seq: (until, bool(wish)) for seq, until, wish in (yield extension(left, now + lease_for, now))}
            for seq, (index, _) in left:
                if seq in done:
                    answers[index] = Extended("applied", *done[seq])
            left = [unit for unit in left if unit[0] not in done]
            guards = yield from guards_of([seq for seq, _ in left])
            for seq, (index, renewal) in left:
                guard = guards.get(seq)
                answer = judge(guard, token=renewal.token, outcome=None, lapsed=False, now=now)
                held = guard if answer == "applied" else None  # by somebody, at this moment
                answers[index] = Extended(answer)
                if held is not None:
                    answers[index] = Extended(answer, held.lease_expires_at, held.cancel_requested_at is not None)
            left = [unit for unit in left if answers[unit[1][0]].answer == "applied"]
            if not left:
                break
    return [answers[index] for index in range(len(renewals))]


def extension(units: Sequence[tuple[int, tuple[int, Renewal]]], expires_at: Micros, now: Micros) -> Statement:
    units = sorted(units, key=lambda unit: unit[0])
    asked = [renewal for _, (_, renewal) in units]
    tokens, which = indexed([renewal.token for renewal in asked])
    return SQL.extend(
        seqs=Ints(seq for seq, _ in units), tokens=tokens, which=which, starts=Ints(r.started_at or 0 for r in asked),
        progress=Floats(r.progress for r in asked),
        notes=Texts(r.progress_note and storable(r.progress_note) for r in asked), expires_at=expires_at, now=now,
        overtaken_by=OVERTAKEN_BY,
    )  # fmt: skip


def pulse() -> Op[tuple[int, bool]]:
    """Values that change when work arrives: the newest number, and whether anything is ready."""
    [(newest, ready)] = yield SQL.pulse()
    return newest or 0, ready
