"""Write docs/reference/schema.md from the migrations of both SQL stores, so that the page cannot say anything else.

python tools/schema_reference.py            write the page
python tools/schema_reference.py --check    fail when the page is not what would be written
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from generated import ROOT, write_or_check

PAGE: Final = ROOT / "docs" / "reference" / "schema.md"
DRIVERS: Final = ROOT / "src" / "windlass" / "drivers"
TABLE: Final = re.compile(r"^create table (?:windlass\.)?(\w+) \((.*?)^\)", re.S | re.M)
INDEX: Final = re.compile(r"^create (unique )?index\s+(\w+)\s+on (?:windlass\.)?(\w+) (.*?);", re.M)
COLUMN: Final = re.compile(r"^  (\w+)\s+((?:windlass\.)?[a-z_]+(?:\[\])?)\b([^\n]*)$", re.M)
DOMAIN: Final = re.compile(r"^create domain (windlass\.\w+) as (\w+)", re.M)
OTHERS: Final = ("constraint", "primary", "unique", "foreign", "check")
ABOUT: Final = {
    "jobs": "Every job, from its enqueueing until it is pruned.",
    "runs": "Every execution, one row each; an ended one never changes again.",
    "idempotency_keys": "Keys that stay taken after their job has ended.",
    "dependencies": "Which job waits for which.",
    "groups": "Jobs that belong together, and how far they are.",
    "limits": "How many may run at once or in a time, and how many do.",
    "shares": "Whose turn it is in a fair queue.",
    "queues": "What is said of a queue: paused, its order.",
    "queue_stats": "A sample of each queue for each minute.",
    "workers": "Who is registered as a worker, and when it was last heard of.",
    "leader": "Who leads, until when, and the number of its epoch.",
    "reservations": "Who holds which queue.",
    "templates": "What schedules make, by version.",
    "schedules": "Rules that make jobs, and when they fire next.",
    "webhooks": "Who wants to hear of what.",
    "outbox": "Events, written with the change they speak of.",
    "deliveries": "What is, was and will be sent to whom.",
    "usage_batches": "What ran, not yet added up.",
    "usage_hourly": "What ran, by the hour.",
    "usage_daily": "What ran, by the day.",
    "api_tokens": "Who may come in over HTTP; of a secret only its hash.",
    "audit": "Who changed what; append-only.",
    "barrier": "Has no columns: who holds a queue locks it, so that claims under way come to their end.",
}  # fmt: skip


@dataclass
class Table:
    columns: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> type, comment
    indexes: list[str] = field(default_factory=list)


def read(driver: str) -> dict[str, Table]:
    text = "\n".join(path.read_text() for path in sorted((DRIVERS / driver / "migrations").glob("*.sql")))
    tables: dict[str, Table] = {}
    stands_for = dict(DOMAIN.findall(text))
    for name, body in TABLE.findall(text):
        table = tables[name] = Table()
        for column, kind, rest in COLUMN.findall(body):
            if column not in OTHERS:
                table.columns[column] = (stands_for.get(kind, kind), rest.partition("--")[2].strip())
    for unique, name, table_name, what in INDEX.findall(text):
        if table_name in tables:
            tables[table_name].indexes.append(f"`{name}`{' (unique)' if unique else ''} `{' '.join(what.split())}`")
    return tables


def rows(here: Table, there: Table) -> Iterator[str]:
    yield "| column | SQLite | PostgreSQL | |\n|---|---|---|---|"
    for name in dict.fromkeys([*here.columns, *there.columns]):
        kind, said = here.columns.get(name, ("", ""))
        other, other_said = there.columns.get(name, ("", ""))
        words = (said or other_said).replace("|", "\\|")
        yield f"| `{name}` | {kind} | {other} | {words} |"


def page() -> str:
    sqlite, postgres = read("sqlite"), read("postgres")
    lines = [
        "# The schema\n",
        "This page is generated from the migrations ([SQLite](../../src/windlass/drivers/sqlite/migrations/0001_windlass.sql),",
        "[PostgreSQL](../../src/windlass/drivers/postgres/migrations/0001_windlass.sql)): `make docs` writes it, `make lint`",
        "fails when it is out of date. The migrations also have the constraints and the triggers, with a comment where one is",
        "not plain.\n",
        "Reading these tables is fine, and `insert into jobs (type) values ('report')` makes a good job by hand; on PostgreSQL",
        "`select windlass.enqueue(…)` is [the way to do it](../guides/other-languages.md). Rows are guarded: what has ended does",
        "not change. On SQLite instants are integer microseconds since 1970 in UTC, on PostgreSQL `timestamptz`. Columns may be",
        "added in any version; `windlass migrate --plan` says what a version would do.\n",
    ]  # fmt: skip
    for name in dict.fromkeys([*sqlite, *postgres]):
        where = "" if name in sqlite and name in postgres else f" On {'SQLite' if name in sqlite else 'PostgreSQL'} alone."
        here, there = sqlite.get(name, Table()), postgres.get(name, Table())
        lines += [f"## {name}\n", f"{ABOUT[name]}{where}\n"]
        if here.columns or there.columns:
            lines += [*rows(here, there), ""]
        if found := here.indexes or there.indexes:
            lines += ["Indexes" + (" (as on SQLite): " if here.indexes else ": ") + "; ".join(found) + ".", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    assert Path(DRIVERS).is_dir()
    sys.exit(write_or_check(PAGE, page(), sys.argv[1:]))
