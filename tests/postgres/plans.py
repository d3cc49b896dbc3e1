"""How PostgreSQL would execute a statement of ours: with the values at hand (custom) and for any (generic)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

from windlass.drivers.postgres.arrays import Blobs, Bools, Floats, Instants, Ints, Texts
from windlass.drivers.statement import Statement

TYPES = {
    Ints: "bigint[]", Texts: "text[]", Bools: "boolean[]", Floats: "double precision[]", Blobs: "bytea[]",
    Instants: "timestamptz[]",
    bool: "boolean", int: "bigint", str: "text", bytes: "bytea", type(None): "unknown",
}  # fmt: skip
FILL = """
insert into windlass.jobs (seq, id, queue, type, state, ready, priority, position, run_at, executions, lease_token,
  lease_expires_at, worker_id, claimed_at, started_at, finished_at, dead_kind, dead_at, dead_reason, waiting_on, parked_on,
  limit_keys, group_id, group_seq, org_id, created_at, queued_at, updated_at)
select n, 'job-' || n, case when big then 'big' else 'q' || n % 1000 end, 't' || n % 7, state,
       state <> 'queued' or kind = 'ready',
       n % 3, 100 * n, case when kind = 'future' then windlass.at({now} + 3600000000 + n) end, (state <> 'queued')::int,
       case when state = 'running' then 'token' end,
       case when state = 'running' then windlass.at({now} + (n / 100 % 60 - 5) * 1000000) end,
       case when state <> 'queued' then 'worker' end,
       case when state <> 'queued' then windlass.at({now} - 1000000) end,
       case when state <> 'queued' then windlass.at({now} - 1000000) end,
       case when kind in ('done', 'dead') then windlass.at({now} - 1000000 + n) end,
       case when kind = 'dead' then 'exhausted' end, case when kind = 'dead' then windlass.at({now}) end,
       case when kind = 'dead' then 'no' end, (kind = 'blocked')::int, case when kind = 'parked' then 'k' || n % 5 end,
       case when kind = 'parked' then jsonb_build_array('k' || n % 5) end,
       case when n % 1000 = 0 then 'g' || n / 10000 end, case when n % 1000 = 0 then n end, 'org' || n % 20,
       windlass.at({now} - 2000000), windlass.at({now} - 2000000), windlass.at({now} - 2000000)
  from (select n, n % 2 = 0 as big, kind,
               case kind when 'done' then 'succeeded' when 'dead' then 'dead' when 'leased' then 'running'
                         else 'queued' end as state
          from (select n, case when n % 100 < 90 then 'done' when n % 100 < 95 then 'future' when n % 100 = 95 then 'leased'
                               when n % 100 = 96 and n % 4 < 2 then 'parked' when n % 200 = 197 then 'blocked'
                               when n % 500 = 398 then 'dead' else 'ready' end as kind
                  from generate_series(1, {rows}) as n) as kinds) as rows;
insert into windlass.runs (job_seq, attempt_no, run_id, queue, type, claimed_at, started_at, finished_at, status)
select seq, 1, 'run-' || seq, queue, type, claimed_at, started_at, finished_at,
       case when finished_at is not null then 'completed' end
  from windlass.jobs where executions = 1;
select setval('windlass.jobs_seq', {rows});
"""  # fmt: skip


def explained(connection: psycopg.Connection[Any], statement: Statement, *, generic: bool) -> dict[str, Any]:
    """The plan of a statement that is executed and undone."""
    with connection.transaction(force_rollback=True):
        if generic:
            types = ", ".join(TYPES[type(value)] for value in statement.params)
            connection.execute("set local plan_cache_mode = force_generic_plan")
            connection.execute(f"prepare hot ({types}) as {statement.sql}" if types else f"prepare hot as {statement.sql}")
            values = ", ".join(literal(value) for value in statement.params)
            call = f"execute hot({values})" if values else "execute hot"
            try:
                rows = connection.execute(f"explain (analyze, buffers, format json) {call}").fetchall()
            finally:
                connection.execute("deallocate all")
        else:
            with psycopg.RawCursor(connection) as cursor:
                cursor.execute(f"explain (analyze, buffers, format json) {statement.sql}", statement.params)
                rows = cursor.fetchall()
    plan: dict[str, Any] = rows[0][0][0]["Plan"]
    return plan


def literal(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'"
    if isinstance(value, Instants):
        return f"array[{', '.join(f'windlass.at({at})' for at in value)}]"
    if isinstance(value, list):
        return f"array[{', '.join(map(literal, value))}]::{TYPES[type(value)]}"
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def buffers(plan: dict[str, Any]) -> int:
    """Pages that the whole statement touched. Writes that nothing reads from run after the rest, and count apart."""
    own = list(nodes(plan))
    read = {node["CTE Name"] for node in own if "CTE Name" in node}
    apart = [node for node in own[1:] if node.get("Subplan Name", "").removeprefix("CTE ") not in read
             and node.get("Subplan Name", "").startswith("CTE ") and node["Node Type"] == "ModifyTable"]  # fmt: skip
    return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in [plan, *apart])


def scanned(plan: dict[str, Any]) -> list[str]:
    """Tables of any size that were read from end to end."""
    return [
        node["Relation Name"]
        for node in nodes(plan)
        if node["Node Type"] == "Seq Scan" and node["Relation Name"] in ("jobs", "runs", "groups")
    ]


def shape(plan: dict[str, Any], depth: int = 0) -> str:
    words = [plan["Node Type"], plan.get("Subplan Name", ""), plan.get("Relation Name", ""), plan.get("Index Name", "")]
    line = "  " * depth + " ".join(word for word in words if word)
    pages = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    line += f" rows={plan['Actual Rows']} x{plan['Actual Loops']} pages={pages}"
    return "\n".join([line, *(shape(child, depth + 1) for child in plan.get("Plans", ()))])
