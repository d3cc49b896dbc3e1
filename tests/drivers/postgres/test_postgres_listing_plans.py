"""No listing reads a table from end to end, whatever the planner believes of it: each stretch costs what it walks."""

from __future__ import annotations

from typing import Any

import psycopg

from postgres.planning import NOW, Hot, drain, faults, fill, forget, store
from postgres.server import Server
from windlass.core.listing import Kind, Path, Place, Wish, path_of
from windlass.drivers.ops.listing import SIZES, STRETCH, by_number
from windlass.drivers.ops.walking import Walk
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.postgres.sql import SQL
from windlass.types import Label

ROWS = 200_000


def only(*labels: Label) -> tuple[Kind, ...]:
    return tuple(Kind(label) for label in labels)


WISHES: dict[str, dict[str, Any]] = {
    "everything": {}, "an org": {"org_id": "org7"}, "a tag": {"tag": "x"}, "a worker": {"worker_id": "worker"},
    "an error": {"error": "boom"}, "a time": {"created_from": NOW - 5, "created_until": NOW},
    "succeeded": {"kinds": only("succeeded")}, "all that ended": {"kinds": only("succeeded", "dead", "cancelled")},
    "dead of a queue": {"kinds": only("dead"), "queues": ("q997",)},
    "ended in an hour": {"finished_from": NOW - 3_600_000_000, "finished_until": NOW},
    "a schedule": {"schedule_id": "s1"},
}  # fmt: skip
FEW: dict[str, dict[str, Any]] = {
    "a group": {"group_id": "g1"}, "ids": {"ids": ("job-1", "job-77", "nobody")}, "running": {"kinds": only("running")},
    "blocked": {"kinds": only("blocked")}, "parked": {"kinds": only("parked")},
    "ready of a queue": {"kinds": only("queued"), "queues": ("q98",)},
    "scheduled of a queue": {"kinds": only("scheduled"), "queues": ("q92",)},
}  # fmt: skip


def walks(connection: psycopg.Connection[Any]) -> list[Hot]:
    found: list[Hot] = []
    for what, fields in WISHES.items():
        wish = Wish(now=NOW, **fields)
        path: Path = path_of(wish)
        place = Place(NOW + 100_000 if path == "ended" else None, ROWS // 2)
        ways = 3 if len(wish.kinds) == 3 or wish.finished_from else 1
        for first in ("newest", "oldest"):
            for after in (None, place):
                for size in (*SIZES, STRETCH):
                    statement = Walk(DIALECT, wish, first).stretch(path, after, size, 51, "numbers")
                    found.append((f"{what}, {first}, {after and 'on'}, {size}", statement, size * ways, 4))
    for what, fields in FEW.items():
        wish = Wish(now=NOW, **fields)
        walk = Walk(DIALECT, wish, "newest")
        found += [
            (f"{what}, {after and 'on'}", walk.stretch(path_of(wish), after, 1_000, 51, "glimpses"), 2_200, 6)
            for after in (None, Place(None, ROWS))
        ]
        if path_of(wish) == "living":
            found.append((f"how many are {what}", walk.living(50_000), 2_200, 4))
    found.append(("jobs by number", by_number(DIALECT, list(range(1, 51))), 50, 8))
    found.append(("first members", SQL.first_members(group_id="g1", limit=51), 51, 8))
    found.append(("the numbers", SQL.number_range(), 2, 8))
    found.append(("created about", SQL.created_about(seq=ROWS // 2), 2, 8))
    found.append(("names", SQL.seen_lately(jobs=2_000), 2_000, 4))
    found.append(("what runs", SQL.running_now(), 2_200, 1))
    found.append(("ended", SQL.ended_jobs(state="succeeded", most=10_000), 10_000, 1))
    return found


def test_no_stretch_of_a_listing_reads_a_table_whatever_the_planner_believes(postgres_server: Server) -> None:
    with store(postgres_server) as connection:
        connection.execute("analyze windlass.jobs")
        fill(connection, ROWS)
        with connection.transaction():
            connection.execute("set local session_replication_role = replica")
            connection.execute("update windlass.jobs set schedule_id = 's' || seq % 7 where seq % 50 = 0")
        listed = walks(connection)
        found = faults(connection, listed, "analysed when empty")
        forget(connection)
        found += faults(connection, listed, "never analysed")
        connection.execute("vacuum analyze windlass.jobs")
        found += faults(connection, listed, "analysed")
        drain(connection)
        found += [fault for fault in faults(connection, listed, "analysed, then emptied") if "scans ['" in fault]
        assert not found, "\n\n".join(found)


def test_a_place_among_few_jobs_is_no_way_to_find_them() -> None:
    """Of a million jobs a planner that does not know the place would read the numbers before it, and not the few."""
    for what, fields in FEW.items():
        wish = Wish(now=NOW, **fields)
        statement = Walk(DIALECT, wish, "newest").stretch(path_of(wish), Place(None, 77), 1_000, 51, "glimpses")
        assert "(seq + 0) < $" in statement.sql, what
        assert " seq < $" not in statement.sql, what
