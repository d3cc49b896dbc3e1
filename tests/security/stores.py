"""Real stores with something in them that must stay as it is."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg

from windlass import Windlass
from windlass.drivers.values import Claim

CANARY = {"a": 4711, "b": 1}
SHAPE_OF_POSTGRES = """
select table_name, column_name, data_type from information_schema.columns where table_schema = %(schema)s
union all select proname, pg_get_function_arguments(p.oid), md5(prosrc) from pg_proc p
  join pg_namespace n on n.oid = pronamespace where nspname = %(schema)s
union all select indexname, tablename, '' from pg_indexes where schemaname = %(schema)s
union all select tgname::text, tgrelid::regclass::text, '' from pg_trigger where not tgisinternal
order by 1, 2, 3"""


class Store:
    """`schema` is None for a file."""

    def __init__(self, url: str, schema: str | None = None) -> None:
        self.url = url
        self.schema = schema

    def app(self, **settings: Any) -> Windlass:
        said: dict[str, Any] = {} if self.schema is None else {"schema": self.schema}
        app = Windlass(self.url, log_root="none", **said, **settings)

        @app.task
        async def add(a: int, b: int) -> int:
            return a + b

        return app

    def shape(self) -> list[Any]:
        """Tables, columns, indexes, functions, triggers."""
        if self.schema is None:
            with sqlite3.connect(self.url.removeprefix("sqlite:///")) as file:
                return file.execute("select type, name, sql from sqlite_master order by 1, 2").fetchall()
        with psycopg.connect(self.url) as connection:
            return connection.execute(SHAPE_OF_POSTGRES, {"schema": self.schema}).fetchall()


async def set_canary(app: Windlass) -> None:
    """A job that runs under a lease: nobody may delete it, whatever they ask for."""
    await app.tasks["add"].using(id="canary", queue="aviary").enqueue(**CANARY)
    now = app.client.now()
    claim = Claim(queues=("aviary",), limit=1, lease_for=10**12, worker_id="w", token="t" * 20)
    assert len(await app.client.driver.claim(claim, now=now)) == 1


async def check_canary(app: Windlass) -> None:
    [job] = await app.client.driver.get(["canary"])
    assert job is not None
    assert (job.state, job.payload, job.queue, job.type) == ("running", b'{"a":4711,"b":1}', "aviary", "add")
