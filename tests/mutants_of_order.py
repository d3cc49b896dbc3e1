"""The bugs that mutants.py plants in the order of queues and in holds, and the tier that is to catch each."""

from __future__ import annotations

from mutants_of_postgres import Planted

LITE = "drivers/sqlite/sql/"
OPS = "drivers/ops/"
PG = "drivers/postgres/"
ORDER: list[Planted] = [
    ("move: other priorities are passed too", LITE + "order.sql",
     "and priority = :priority and state = 'queued' and ready = 1\n      and (position, created_at, seq) >",
     "and :priority = :priority and state = 'queued' and ready = 1\n      and (position, created_at, seq) >", ("conformance",)),
    ("move: those who wait for their time are not passed", LITE + "order.sql",
     "ready = 0 and waiting_on = 0 and parked_on is null and (position, created_at, seq) >",
     "ready = 0 and waiting_on = 0 and 0 and (position, created_at, seq) >", ("conformance",)),
    ("move: who stands on one side stands on both", "core/positions.py", "before < own) and (after", "before < own) or (after", ()),
    ("move: the last place is not counted like a new job's", OPS + "order.py",
     "positions.append(tail(number) if", "positions.append(number if", ()),
    ("move: another priority is taken unasked", OPS + "order.py", "and not change.take_priority", "and not change", ()),
    ("move: beside is on the other side", OPS + "order.py",
     "(next_to, place(other)) if change.side == \"before\"", "(next_to, place(other)) if change.side == \"after\"", ()),
    ("swap: those who share a position are passed", OPS + "order.py",
     "if (yield from shares(db, job)) or (yield from shares(db, other)):", "if (yield from shares(db, job)) and not job:", ()),
    ("positions: fresh ones end behind the last", "core/positions.py",
     "last - GAP * (count - 1)", "last - GAP * (count - 2)", ()),
    ("positions: blocked and waiting jobs get none", LITE + "order.sql",
     "     and ready = 0 and waiting_on = 0 and parked_on is null\n", "     and ready = 0 and waiting_on = 0 and 0\n", ()),
    ("positions: a leader tidies however many there are", OPS + "order.py",
     "> duty.limit:  # left", "> duty.limit * 100:  # left", ()),
    ("hold: the instant of expiry still counts as valid", "core/holds.py", "hold.expires_at > now", "hold.expires_at >= now", ()),
    ("hold: a held queue is claimed from", LITE + "leases.sql",
     "\n         or exists (select 1 from reservations indexed by reservations_active where status = 'ACTIVE')", "", ()),
    ("hold: a claim that distrusts its clock ends it", "drivers/sqlite/leases.py",
     "        if wish.reclaim:\n            yield from end_stale", "        if wish:\n            yield from end_stale", ()),
    ("hold: granted beside a valid lease", OPS + "holds.py",
     "    if valid:\n        return False\n", "    if valid:\n        return True\n", ()),
    ("hold: a lapsed lease can be extended after the grant", LITE + "holds.sql",
     "set lease_expires_at = claimed_at, updated", "set lease_expires_at = claimed_at + 1, updated", ()),
    ("hold: the time of a waiting one is not renewed", OPS + "holds.py",
     "            yield from write(db, renewed(found, change.expires_in, now, granted=granted))\n            return \"applied\" if",
     "            if granted:\n                yield from write(db, renewed(found, change.expires_in, now, granted=granted))\n"
     "            return \"applied\" if", ()),
    ("hold: an expiry leaves no line", OPS + "holds.py",
     "        yield from note(db, found, \"hold.expired\", actor, now)\n", "        yield from ()\n", ()),
    ("hold: one that has ended is renewed", OPS + "holds.py",
     "    if not is_valid(found, now):\n        return \"wrong_state\"\n    match", "    match", ()),
    ("pg order: enqueues of a dense queue come in between", PG + "locking.py",
     "    if queues | ordered:\n        yield SQL.hold_queues(names=Texts(queues | ordered))\n",
     "    if queues:\n        yield SQL.hold_queues(names=Texts(queues))\n", ("order: nobody_gets_the_place or comes_while",)),
    ("pg order: who gets fresh positions is locked late", PG + "locking.py",
     "        seqs = Ints({*seqs, *placed})\n", "        placed.clear()\n", ("order: ring",)),
    ("pg hold: claims that are under way are not waited for", PG + "dialect.py",
     "        return not (yield SQL.still_under_way(transactions=under_way))\n", "        return True\n", ("holds: one_statement",)),
    ("pg hold: nobody looks for claims that are under way", PG + "dialect.py",
     "Texts(row[0] for row in (yield SQL.claims_under_way()))", "Texts(())", ("holds: one_statement",)),
    ("pg hold: a held queue is claimed from", PG + "sql/leases.sql",
     "\n              or exists (select from windlass.reservations where queue = :queue and status = 'ACTIVE') as closed",
     " as closed", ("promises: hold",)),
    ("pg hold: a held queue is claimed from, over several", PG + "sql/leases.sql",
     "     and not exists (select from windlass.reservations as hold where hold.queue = asked.queue and status = 'ACTIVE')\n"
     "), glance", "), glance", ("promises: hold",)),
    ("pg hold: a claim does not end a stale one", PG + "leases.py",
     "    if stale and wish.reclaim:\n", "    if stale and not wish:\n", ("promises: stale",)),
    ("pg hold: granted while somebody extends a lapsed lease", OPS + "holds.py",
     "    return not left\n", "    return left in (True, False)\n", ("holds: extended_late",)),
    ("pg hold: expires although it was renewed meanwhile", PG + "sql/holds.sql",
     "order by reservation_id\n      for update skip locked))", "order by reservation_id))", ("holds: renewed_or_expires",)),
]  # fmt: skip
