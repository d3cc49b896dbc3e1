"""Applying a step of the schema.

A step is one transaction under a lock that other migrators wait for, so two at once are safe, and one that is killed
leaves nothing behind. A step that says `-- concurrently` builds indexes without stopping writers: its statements commit
one by one, each written so that it may be repeated; an index that was left half built is dropped and built again. A schema
that is made from nothing is one transaction altogether: nobody writes to it yet, and nobody ever sees a part of it.

Waiting for a table's lock makes everybody else wait behind us, so a step soon gives up, and says who was in its way. Only a
step itself may take as long as it takes; whatever else is asked has a deadline (timed.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import psycopg

from windlass.clock import ticking
from windlass.drivers.migrations import Migration
from windlass.drivers.postgres.blockers import SESSION, Onlooker, told
from windlass.drivers.postgres.link import BEGIN, COMMIT, ROLLBACK, Link
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.splitting import concurrent_statements, index_built
from windlass.drivers.postgres.timed import Timed
from windlass.drivers.statement import Statement
from windlass.errors import StoreBusy, StoreUnavailable

LOCK: Final = "windlass migrations of {}"
KEY: Final = "hashtextextended($1, 0)"
FOR_A_TABLE: Final = 5.0  # seconds; workers queue behind us meanwhile
FOR_OTHERS: Final = 30.0  # for another migrator, or for old transactions to end: nobody waits for us then
ASK_EVERY: Final = 0.1
HOLDERS: Final = f"""select {SESSION} from pg_locks l join pg_stat_activity a using (pid)
where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.objid::bigint = {KEY} & 4294967295
  and l.classid::bigint = ({KEY} >> 32) & 4294967295
  and l.database = (select oid from pg_database where datname = current_database())"""  # noqa: S608 - put together from constants
BOOTSTRAP: Final = """create table if not exists windlass.migrations (
  version integer primary key, name text not null, checksum text not null, applied_at timestamptz not null);
create table if not exists windlass.meta (key text primary key, value text not null);
insert into windlass.meta values ('store_id', replace(gen_random_uuid()::text, '-', '')) on conflict do nothing;
"""
RECORD: Final = "insert into windlass.migrations values ({}, '{}', '{}', clock_timestamp())"
LEFT_HALF_BUILT: Final = "select 1 from pg_index where indexrelid = to_regclass('windlass.{}') and not indisvalid"


def applied_steps(link: Link) -> dict[int, str]:
    [(there,)] = link.execute(Statement("select to_regclass('windlass.migrations') is not null", ()))
    if not there:
        return {}
    return {row[0]: row[1] for row in link.execute(Statement("select version, checksum from windlass.migrations", ()))}


def make(link: Timed, place: Place, steps: Sequence[Migration]) -> bool:
    """All of it in an empty schema. False when somebody else has done it meanwhile."""
    return _seen(link, place, "the schema", lambda: _make(link, place, steps))


def apply(link: Timed, place: Place, step: Migration) -> bool:
    """False when somebody else has done it meanwhile."""
    if step.concurrent and place.pooled:
        raise StoreUnavailable(
            f"{place}: {step.label} cannot run through a pooler in transaction mode; run windlass migrate with the "
            "server's own URL and WINDLASS_POOLER=none"
        )
    run = _apply_concurrently if step.concurrent else _apply_whole
    return _seen(link, place, step.label, lambda: run(link, place, step))


def _seen(link: Timed, place: Place, what: str, run: Callable[[], bool]) -> bool:
    with Onlooker(place, link) as onlooker:
        try:
            return run()
        except psycopg.errors.LockNotAvailable as error:
            raise StoreBusy(
                str(place), 0, f"{what} did not get a lock in time{told(onlooker.seen)}; nothing of it was recorded"
            ) from error
        finally:
            link.close()  # whatever was half done is undone by the server, locks and settings are given back


def _make(link: Timed, place: Place, steps: Sequence[Migration]) -> bool:
    _begin(link, place)
    if applied_steps(link):
        return False
    for step in steps:
        link.build(_plain(step))
        link.script(_record(step))
    link.execute(COMMIT, FOR_OTHERS)
    return True


def _apply_whole(link: Timed, place: Place, step: Migration) -> bool:
    _begin(link, place)
    if step.version in applied_steps(link):
        return False
    link.build(step.text)
    link.script(_record(step))
    link.execute(COMMIT, FOR_OTHERS)
    return True


def _begin(link: Timed, place: Place) -> None:
    def attempt() -> bool:
        link.execute(BEGIN)
        [(ours,)] = link.execute(Statement(f"select pg_try_advisory_xact_lock({KEY})", (LOCK.format(place.schema),)))
        if not ours:
            link.execute(ROLLBACK)
        return bool(ours)

    _take_turn(link, place, attempt)
    link.script(f"set local statement_timeout = 0; set local lock_timeout = '{FOR_A_TABLE}s'")
    _lay_ground(link, place)


def _take_turn(link: Timed, place: Place, attempt: Callable[[], bool]) -> None:
    """Asked for again and again: a statement that waits for the lock holds a snapshot, and a concurrent step of the one who
    has the lock would wait for the end of that."""
    until = ticking() + FOR_OTHERS
    while not attempt():
        if ticking() >= until:
            holders = link.execute(Statement(HOLDERS, (LOCK.format(place.schema),)))
            raise StoreBusy(str(place), 0, f"another migrator is at work{told(holders)}")
        threading.Event().wait(ASK_EVERY)


def _lay_ground(link: Timed, place: Place) -> None:
    [(there,)] = link.execute(Statement("select to_regnamespace(quote_ident($1)) is not null", (place.schema,)))
    if not there:  # asking with `if not exists` would need the right to make one even then
        link.script(f'create schema "{place.schema}"', FOR_A_TABLE)
    link.script(BOOTSTRAP, FOR_A_TABLE)


def _apply_concurrently(link: Timed, place: Place, step: Migration) -> bool:
    """Outside of a transaction, under a lock of the session."""
    parts = concurrent_statements(step.text)
    link.script(f"set statement_timeout = 0; set lock_timeout = '{FOR_OTHERS}s'")
    with suppress(psycopg.Error):  # not every platform can: should we die, the server stops building soon after
        link.script("set client_connection_check_interval = '1s'")
    ask = Statement(f"select pg_try_advisory_lock({KEY})", (LOCK.format(place.schema),))
    _take_turn(link, place, lambda: bool(link.execute(ask)[0][0]))
    if step.version in applied_steps(link):
        return False
    for part in parts:
        index = index_built(part)
        if index is not None and link.execute(Statement(LEFT_HALF_BUILT.format(index), ())):
            link.build(f"drop index concurrently windlass.{index}")
        link.build(part)
    link.script(_record(step), FOR_OTHERS)
    return True


def _plain(step: Migration) -> str:
    """As it is run where nobody writes yet."""
    if not step.concurrent:
        return step.text
    return "".join(f"{part.replace(' concurrently', '', 1)};\n" for part in concurrent_statements(step.text))


def _record(step: Migration) -> str:
    return RECORD.format(step.version, step.name, step.checksum)


def script(place: Place, left: Sequence[Migration], *, empty: bool) -> str:
    """The same for psql: for a person to look at, and to run where programs may not change schemas."""
    if not left:
        return ""
    key = f"hashtextextended('{LOCK.format(place.schema)}', 0)"
    name = f'"{place.schema}"'
    parts = [
        f"-- {', '.join(step.label for step in left)} for schema {name}. Run it with: psql -f FILE\n"
        f"\\set ON_ERROR_STOP on\nset client_min_messages = warning;\n"
        f"do $$ begin if not pg_try_advisory_lock({key})\n"
        "  then raise exception 'another migrator is at work; try again'; end if; end $$;\n"
        f"set lock_timeout = '{FOR_OTHERS}s';\n"
        f"select 'create schema {name}' where to_regnamespace('{name}') is null \\gexec\n",
    ]
    if empty:
        parts.append(_whole_script(left))
    else:
        parts += [_concurrent_script(step) if step.concurrent else _whole_script([step]) for step in left]
    return place.text("".join([*parts, f"\nselect pg_advisory_unlock({key});\n"]))


def _whole_script(steps: Sequence[Migration]) -> str:
    texts = (f"-- {step.label}\n\n{_plain(step)}\n{_record(step)};\n" for step in steps)
    joined = "\n".join(texts)
    return f"\nbegin;\nset local lock_timeout = '{FOR_A_TABLE}s';\n{BOOTSTRAP}\n{joined}commit;\n"


def _concurrent_script(step: Migration) -> str:
    text = f"\n-- {step.label}, outside of transactions\n\n"
    for part in concurrent_statements(step.text):
        if (index := index_built(part)) is not None:
            drop = f"select 'drop index concurrently windlass.{index}' where exists ({LEFT_HALF_BUILT.format(index)})"
            text += f"{drop} \\gexec\n"
        text += f"{part};\n"
    return f"{text}{_record(step)};\n"
