"""The one query that is built at run time: listing jobs with optional filters. Columns come from an allow-list, values
are always parameters. Hot-path queries never go through here.

On PostgreSQL a listing never leaves the choice between walking the table and using an index to guesses about the data.
Members of a group and retries of a job are found by their index. Jobs in states that few are in are looked for among the
newest, and when those do not fill the page, in the partial indexes of these states. Everything else walks from the newest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from windlass.drivers.statement import Statement
from windlass.drivers.values import JobQuery

SQLITE = ("?", "is not")  # the mark of a parameter, and "is different from" where null is a value
POSTGRES = ("$", "is distinct from")
_SETS = (("states", "state"), ("queues", "queue"), ("types", "type"))
_VALUES = (("org_id", "org_id"), ("group_id", "group_id"), ("retry_of", "retry_of"))

NEWEST: Final = 2_000  # rows that are looked through before the indexes of their states
_PARTS: Final = {  # what the predicates of the partial indexes say; together they hold every job of the state
    "queued": (
        "state = 'queued' and ready",
        "state = 'queued' and not ready and waiting_on = 0 and parked_on is null",
        "state = 'queued' and parked_on is not null and waiting_on = 0",
        "state = 'queued' and waiting_on > 0",
    ),
    "running": ("state = 'running'",),
    "dead": ("state = 'dead' and finished_at is not null",),
}


def find_statement(get_jobs: str, query: JobQuery, dialect: tuple[str, str] = SQLITE) -> Statement:
    """The statement of a page. It reads one row more than the page holds, to know whether there is another."""
    params: list[Any] = []

    def bound(value: Any) -> str:
        params.append(value)
        return f"{dialect[0]}{len(params)}"

    columns = get_jobs.split(" where ")[0].rstrip()
    wheres = _wheres(query, bound, dialect[1])
    before = [] if query.before is None else [f"seq < {bound(query.before)}"]
    limit = bound(query.limit + 1)
    if dialect is SQLITE:
        return Statement(f"{columns}{_where(wheres + before)} order by seq desc limit {limit}", params)
    return Statement(_on_postgres(columns, query, wheres, before, limit), params)


def _wheres(query: JobQuery, bound: Callable[[Any], str], differs: str) -> list[str]:
    wheres: list[str] = []
    for field, column in _SETS:
        values = getattr(query, field)
        if values:
            wheres.append(f"{column} in ({', '.join(map(bound, values))})")
    for field, column in _VALUES:
        value = getattr(query, field)
        if value is not None:
            wheres.append(f"{column} = {bound(value)}")
    if not query.superseded:
        wheres.append(f"dead_kind {differs} 'superseded'")
    return wheres


def _where(wheres: Sequence[str]) -> str:
    return " where " + " and ".join(wheres) if wheres else ""


def _on_postgres(columns: str, query: JobQuery, wheres: list[str], before: list[str], limit: str) -> str:
    named = f"{columns} where seq = any(array({{}})) order by seq desc limit {limit}"
    everywhere = wheres + before
    if query.group_id is not None:
        return named.format(_among(["group_id is not null"], everywhere, limit))
    if query.retry_of is not None:
        return named.format(_among(["not manual", "manual"], everywhere, limit))
    newest = f"(select * from windlass.jobs{_where(before)} order by seq desc {{}}) as jobs"
    if query.states and set(query.states) <= _PARTS.keys():
        parts = [part for state in dict.fromkeys(query.states) for part in _PARTS[state]]
        near = f"select seq from {newest.format(f'limit {NEWEST}')}{_where(wheres)} limit {limit}"
        far = _among(parts, everywhere, limit, f" where (select count(*) from near) < {limit}")
        both = f"select seq from near union all ({far})"
        return f"with near as materialized ({near}) {named.format(both)}"
    # what is asked for is told apart only on the way, so that the way is always along the numbers, and in their order
    return f"{columns.removesuffix('windlass.jobs')}{newest.format('offset 0')}{_where(wheres)} limit {limit}"


def _among(parts: Sequence[str], wheres: Sequence[str], limit: str, when: str = "") -> str:
    """The newest in the union of parts that do not overlap, each found by its own index."""
    each = " union all ".join(f"select seq from windlass.jobs{_where([part, *wheres])}" for part in parts)
    return f"select seq from ({each} offset 0) as few{when} order by seq desc limit {limit}"
