"""Usage, added up as it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.core.queries import CountedUntil, UsageBy
from windlass.core.usage import key_of_row, merged, spread
from windlass.drivers.memory.tables import Tables
from windlass.records import Usage


def usage(tables: Tables, query: UsageBy | CountedUntil) -> Sequence[Any]:
    if isinstance(query, CountedUntil):
        return [] if tables.watermark is None else [tables.watermark]
    found: dict[object, Usage] = {}
    for row in tables.usage.values():
        if (
            query.since <= row.hour < query.until
            and query.org_id in (None, row.org_id)
            and (query.queues is None or row.queue in query.queues)
            and query.type in (None, row.type)
        ):
            part = spread(row, query)
            found[key_of_row(part)] = merged(found.get(key_of_row(part)), part)
    return sorted(found.values(), key=key_of_row)[: query.limit]
