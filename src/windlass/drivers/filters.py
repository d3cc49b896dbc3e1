"""The one query that is built at run time: listing jobs with optional filters. Columns come from an allow-list, values
are always parameters. Hot-path queries never go through here."""

from __future__ import annotations

from typing import Any

from windlass.drivers.protocol import JobQuery
from windlass.drivers.statement import Statement

SQLITE = ("?", "is not")  # the mark of a parameter, and "is different from" where null is a value
POSTGRES = ("$", "is distinct from")
_SETS = (("states", "state"), ("queues", "queue"), ("types", "type"))
_VALUES = (("org_id", "org_id"), ("group_id", "group_id"), ("retry_of", "retry_of"))


def find_statement(get_jobs: str, query: JobQuery, dialect: tuple[str, str] = SQLITE) -> Statement:
    """One row more than the page holds, to know whether there is another."""
    mark, differs = dialect
    columns = get_jobs.split(" where ")[0].rstrip()
    wheres: list[str] = []
    params: list[Any] = []

    def bound(value: Any) -> str:
        params.append(value)
        return f"{mark}{len(params)}"

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
    if query.before is not None:
        wheres.append(f"seq < {bound(query.before)}")
    where = " where " + " and ".join(wheres) if wheres else ""
    limit = bound(query.limit + 1)
    return Statement(f"{columns}{where} order by seq desc limit {limit}", params)
