"""What the server can tell of its own health, and what a person would type about it.

Reads catalogs and statistics only. A role without `pg_read_all_stats` sees little of the sessions of others; then that is
a finding too, for silence would look like health.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from windlass.drivers.migrations import Migration
from windlass.drivers.ops.copying import standing
from windlass.drivers.postgres.copying import HAND
from windlass.drivers.postgres.faults import ACCEPTS_NO_WRITES, grants
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.splitting import statements
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op, Row
from windlass.records import Finding
from windlass.types import Micros

OLD_TRANSACTION: Final = 300  # seconds
LONG_WAIT: Final = 10  # seconds for a lock
MANY_ROWS: Final = 10_000  # fewer are read quickly whatever the statistics say, and vacuumed when it suits
CROWDED: Final = 0.8  # of the connections that there are

_INDEX: Final = re.compile(r"(create (?:unique )?index )(?:concurrently )?(?:if not exists )?(\w+)( on .*)", re.DOTALL)
_PARTITIONED: Final = re.compile(r"create table windlass\.(\w+) \(.*\) partition by ", re.DOTALL)
_DROPPED: Final = re.compile(r"drop index (?:concurrently )?(?:if exists )?windlass\.(\w+)")


def examine(place: Place, steps: Sequence[Migration], now: Micros) -> Op[list[Finding]]:
    [facts] = yield SQL.server_facts()
    found = [*_server(place, facts), *(yield from standing(HAND))]
    lacking = yield SQL.lacking_rights(schema=place.schema)
    found += _rights(place, [row[0] for row in lacking], changes=any(row[1] for row in lacking))
    states = yield SQL.index_states(schema=place.schema)
    found += _indexes(place, steps, dict(states))
    tables = yield SQL.table_health(schema=place.schema, now=now)
    found += _statistics(place, tables)
    found += _dead_rows(place, tables, bool(facts[2]))
    old = yield SQL.old_transactions(now=now, seconds=OLD_TRANSACTION)
    prepared = yield SQL.prepared_transactions(now=now, seconds=OLD_TRANSACTION)
    slots = yield SQL.idle_slots()
    found += _holders(place, old, prepared, slots)
    blockers = yield SQL.lock_blockers(schema=place.schema, now=now, seconds=LONG_WAIT)
    found += _locks(place, blockers)
    if not facts[6]:
        found.append(Finding(
            "what is seen", "warning", f"{facts[5]} sees no details of the sessions of others: old transactions and "
            "locks may be missing here", psql(place, f"grant pg_read_all_stats to {facts[5]}"),
        ))  # fmt: skip
    return found


def psql(place: Place, statement: str) -> str:
    return f"psql {place.url} -c {shlex.quote(place.text(statement))}"


def _server(place: Place, facts: Row) -> Iterator[Finding]:
    version, standby, _, most, used, _, _, fsync, synchronous, read_only, isolation = facts
    if standby or read_only:
        yield Finding("server", "problem", ACCEPTS_NO_WRITES, psql(place, "select pg_is_in_recovery()"))
    else:
        yield Finding("server", "ok", f"PostgreSQL {version.split(' ')[0]}")
    if isolation != "read committed":  # where no pooler is in the way, our sessions say so themselves
        yield Finding(
            "isolation", "warning", f"sessions begin {isolation.upper()}, and through a pooler we cannot ask for another: "
            "workers that meet at a row are refused and try again instead of waiting",
            psql(place, f"alter role {place.user} set default_transaction_isolation = 'read committed'"),
        )  # fmt: skip
    full = used >= CROWDED * most
    yield Finding(
        "connections", "warning" if full else "ok", f"{used} of {most} are in use" + (
            "; raise max_connections, let processes have fewer (WINDLASS_CONNECTIONS), or put a pooler before the server"
            if full else ""),
        psql(place, "select usename, application_name, count(*) from pg_stat_activity group by 1, 2 order by 3 desc")
        if full else None,
    )  # fmt: skip
    off = [name for name, bad in (("fsync", not fsync), ("synchronous_commit", synchronous == "off")) if bad]
    if off:
        yield Finding(
            "durability", "warning", f"{' and '.join(off)} off: a crash may undo what was acknowledged",
            psql(place, f"alter system set {off[0]} = on"),
        )  # fmt: skip


def _rights(place: Place, lacking: Sequence[str], *, changes: bool) -> Iterator[Finding]:
    if lacking and changes:
        names = ", ".join(lacking[:5]) + (" …" if len(lacking) > 5 else "")
        yield Finding(
            "rights", "problem", f"{place.user} may not read and write {names}: too little for a worker",
            psql(place, grants(place)),
        )  # fmt: skip
    elif lacking:
        yield Finding("rights", "ok", f"{place.user} may change no table: enough to look, not to enqueue or to work")
    else:
        yield Finding("rights", "ok", f"{place.user} may read and write what a worker does")


def _indexes(place: Place, steps: Sequence[Migration], states: dict[str, bool]) -> Iterator[Finding]:
    wanted = _wanted_indexes(steps)
    missing = [name for name in wanted if name not in states]
    for name in missing:
        yield Finding("indexes", "problem", f"{name} is missing: claims or listings read whole tables",
                      psql(place, wanted[name]))  # fmt: skip
    invalid = [name for name, valid in states.items() if not valid]
    for name in invalid:
        yield Finding("indexes", "problem", f"{name} is invalid: its building was interrupted, nobody uses it",
                      psql(place, f"reindex index concurrently windlass.{name}"))  # fmt: skip
    if not missing and not invalid:
        yield Finding("indexes", "ok", f"all {len(wanted)} are there and valid")


def _wanted_indexes(steps: Sequence[Migration]) -> dict[str, str]:
    """Name → how to build it without stopping anybody, as the steps have it; over partitions that cannot be asked for."""
    wanted: dict[str, str] = {}
    partitioned: set[str] = set()
    for step in steps:
        for statement in (" ".join(part.split()) for part in statements(step.text)):
            if (table := _PARTITIONED.match(statement)) is not None:
                partitioned.add(table[1])
            elif (made := _INDEX.match(statement)) is not None:
                whole = made[3].removeprefix(" on windlass.").split(" ", 1)[0] in partitioned
                wanted[made[2]] = f"{made[1]}{'' if whole else 'concurrently '}{made[2]}{made[3]}"
            elif (dropped := _DROPPED.match(statement)) is not None:
                wanted.pop(dropped[1], None)
    return wanted


def _statistics(place: Place, tables: Sequence[Row]) -> Iterator[Finding]:
    stale = [
        (name, changed if analyzed else None)
        for name, live, _, changed, analyzed, _, _ in tables
        if changed > MANY_ROWS and (not analyzed or changed > live)
    ]
    for name, changed in stale:
        why = "was never analyzed" if changed is None else f"changed by {changed:,} rows since it was analyzed"
        yield Finding("statistics", "warning", f"{name} {why}: plans may be bad", psql(place, f"analyze windlass.{name}"))
    if not stale:
        yield Finding("statistics", "ok", "fresh enough")


def _dead_rows(place: Place, tables: Sequence[Row], autovacuum: bool) -> Iterator[Finding]:
    if not autovacuum:
        yield Finding(
            "autovacuum", "problem", "is off: tables grow without end", psql(place, "alter system set autovacuum = on")
        )
    for name, *_, disabled in tables:
        if disabled:
            yield Finding("autovacuum", "warning", f"is off for {name}",
                          psql(place, f"alter table windlass.{name} reset (autovacuum_enabled)"))  # fmt: skip
    bloated = [row for row in tables if row[2] > MANY_ROWS and row[2] > row[1]]
    for name, live, dead, _, _, vacuumed, _ in bloated:
        last = "it was never vacuumed" if vacuumed is None else f"vacuumed {lasting(vacuumed)} ago"
        yield Finding("dead rows", "warning", f"{name} has {dead:,} dead rows and {live:,} live ones; {last}",
                      psql(place, f"vacuum (analyze) windlass.{name}"))  # fmt: skip
    if not bloated:
        dead = sum(row[2] for row in tables)
        yield Finding("dead rows", "ok", f"{dead:,} in all tables")


def _holders(place: Place, old: Sequence[Row], prepared: Sequence[Row], slots: Sequence[Row]) -> Iterator[Finding]:
    """Whoever keeps vacuum from removing rows."""
    for pid, user, program, state, seconds, started, query in old:
        yield Finding(
            "old transaction", "warning", f"session {pid} of {user} ({program or 'unnamed program'}, {state}) holds back "
            f"vacuum for {lasting(seconds)}; its last statement began {started} UTC: {query!r}",
            psql(place, f"select pg_terminate_backend({pid})"),
        )  # fmt: skip
    for gid, owner, seconds in prepared:
        yield Finding(
            "prepared transaction", "warning", f"{gid} of {owner} is prepared and not ended for {lasting(seconds)}",
            psql(place, f"rollback prepared {gid}"),
        )  # fmt: skip
    for slot, kind, transactions in slots:
        yield Finding(
            "replication slot", "warning", f"{slot} ({kind}) has no reader, and keeps WAL"
            + (f" and rows of {transactions:,} transactions" if transactions else ""),
            psql(place, f"select pg_drop_replication_slot('{slot}')"),
        )  # fmt: skip
    if not old and not prepared and not slots:
        yield Finding("old transactions", "ok", "nobody holds back vacuum")


def _locks(place: Place, blockers: Sequence[Row]) -> Iterator[Finding]:
    for pid, user, program, state, waiting, seconds, query in blockers:
        yield Finding(
            "locks", "problem", f"session {pid} of {user} ({program or 'unnamed program'}, {state}) keeps {waiting} others "
            f"waiting for {lasting(seconds)}: {query!r}", psql(place, f"select pg_terminate_backend({pid})"),
        )  # fmt: skip
    if not blockers:
        yield Finding("locks", "ok", f"nobody waits for longer than {LONG_WAIT} s")


def wakeups(mode: Literal["push", "poll"], pooled: bool, latency: float | None) -> Finding:
    if mode == "push" and latency is not None:
        return Finding("wake-ups", "ok", f"pushed; a message to ourselves took {latency * 1000:.1f} ms")
    if pooled:
        return Finding("wake-ups", "ok", "polled: through a pooler in transaction mode nobody can be told of new work")
    return Finding(
        "wake-ups", "warning", "polled: no message came back. Is a pooler in the way? Workers look for themselves",
        "WINDLASS_POOLER=transaction, or the server's own URL",
    )  # fmt: skip


def lasting(seconds: int) -> str:
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
