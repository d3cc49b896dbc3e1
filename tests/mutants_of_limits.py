"""The bugs that mutants.py plants where many wait for a permit or a turn, and the tier that is to catch each."""

from __future__ import annotations

from mutants_of_postgres import Planted

OPS = "drivers/ops/"
PG = "drivers/postgres/"
LIMITS: list[Planted] = [
    ("parking: a backlog is looked at one by one", OPS + "admitting.py",
     "self.ahead = min(GROWTH * max(considered, 1), PARK_BITE) if", "self.ahead = 0 if", ("backlogs",)),
    ("parking: one transaction parks everything", OPS + "admitting.py",
     "        return self.parked >= PARK_BITE\n", "        return self.parked < 0\n", ("conformance", "backlogs")),
    ("parking: who waits for another key is asked for every job", OPS + "admitting.py",
     "unknown = [key for key in keys if key not in self._waited_for]", "unknown = list(keys)", ("backlogs",)),
    ("parking: a permit is not passed on by one who cannot use it", OPS + "admitting.py",
     "        if not free:\n            return False\n", "        if free is not None:\n            return False\n",
     ("conformance",)),
    ("parking: a claim that has nothing does not go on", "drivers/sqlite/driver.py",
     "while more and not taken:", "while more and taken:", ("conformance",)),
    ("pg parking: a claim that has nothing does not go on", PG + "driver.py",
     "while took.more and not took.jobs:", "while took.more and took.jobs:", ("promises: backlog",)),
    ("turns: a permit goes to the first in line, whoever had the last", OPS + "limits.py",
     "found += yield from in_turn(turns[queue], shares, room, first_of)",
     "found += yield from in_turn(Turns({}, {}), shares[:1], room, first_of)", ("conformance",)),
    ("turns: orgs are looked at one by one", OPS + "picking.py",
     "ahead = max(limit - len(order), 2 * ahead)", "ahead = limit - len(order)", ("backlogs",)),
    ("turns: who has no wanted job ends the line", OPS + "picking.py",
     "        heappop(heads)\n        if used < len(has):",
     "        heappop(heads)\n        if used == len(has):\n            break\n        if used < len(has):", ("backlogs",)),
    ("ageing: who waits for a permit stays young", "drivers/sqlite/sql/limits.sql",
     "and parked_on is not null and priority < :age_to", "and parked_on is null and priority < :age_to", ("conformance",)),
    ("limits: a key that is named like a kind counts nobody", "core/limits.py",
     '    return "key", key\n', '    return key.partition(":")[0], ""\n', ("conformance",)),
    ("recount: who waits although there is room is not found", OPS + "limits.py",
     "            yield from self.pass_on(overlooked, now)\n", "            list(overlooked)\n", ("conformance",)),
    ("pg passing on: a key that somebody holds is waited for", PG + "sql/limits.sql",
     "order by key for update skip locked\n", "order by key for update\n", ("passing",)),
    ("pg permits: a job that somebody holds is waited for", PG + "sql/limits.sql",
     "seq limit asked.room\n       for update skip locked", "seq limit asked.room", ("passing",)),
    ("pg turns: a job that somebody holds is waited for", PG + "sql/limits.sql",
     "then state end = 'queued'\n    order by seq for update skip locked))\nreturning seq;\n\n-- name: parked_shares",
     "then state end = 'queued'))\nreturning seq;\n\n-- name: parked_shares", ("passing",)),
    ("pg permits: who was passed over is forgotten", PG + "limits.py",
     "    passes_over = True\n", "    passes_over = False\n", ("passing",)),
    ("pg turns: a queue becomes fair when nobody holds its jobs", PG + "sql/limits.sql",
     "<> :fair\n    order by seq for update skip locked", "<> :fair\n    order by seq for update", ("passing",)),
    ("pg claim: does not say that it is about to begin runs", PG + "sql/leases.sql",
     "with nothing as (delete from windlass.barrier where false), glance as", "with glance as", ("holders: limit",)),
    ("pg limits: a vacuum of runs is waited for", PG + "sql/limits.sql",
     "lock table windlass.barrier in", "lock table windlass.barrier, windlass.runs in", ("holders: limit",)),
]  # fmt: skip
