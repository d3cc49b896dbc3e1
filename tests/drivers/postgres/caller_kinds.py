"""Every library whose transactions jobs can join, behind the same few words, so that each promise is tried on all."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import urlsplit

import asyncpg
import django
import psycopg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.values import Enqueued
from windlass.types import NewJob

NOW = 1_900_000_000_000_000


class Kind:
    """One connection of the caller's."""

    awaited: ClassVar[bool]
    hooked: ClassVar[bool] = False  # tells of its commit

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn: Any = None

    async def open(self) -> None:
        raise NotImplementedError

    async def open_in_autocommit_mode(self) -> None:
        raise NotImplementedError

    async def begin(self) -> None:
        """As a program of this library begins."""

    async def execute(self, statement: str) -> None:
        await self.conn.execute(statement.encode())

    async def savepoint(self) -> None:
        await self.execute("savepoint mine")

    async def back_to_savepoint(self) -> None:
        await self.execute("rollback to savepoint mine")

    async def commit(self) -> None:
        await self.conn.commit()

    async def rollback(self) -> None:
        await self.conn.rollback()

    async def close(self) -> None:
        await self.conn.close()

    async def enqueue(self, driver: PostgresDriver, jobs: Sequence[NewJob], *, notify: bool = True) -> list[Enqueued]:
        if self.awaited:
            return await driver.enqueue_within_async(self.conn, jobs, now=NOW, notify=notify)
        return driver.enqueue_within(self.conn, jobs, now=NOW, notify=notify)


class Psycopg(Kind):
    awaited = False

    async def open(self) -> None:
        self.conn = psycopg.connect(self.dsn)

    async def execute(self, statement: str) -> None:
        self.conn.execute(statement.encode())

    async def commit(self) -> None:
        self.conn.commit()

    async def rollback(self) -> None:
        self.conn.rollback()

    async def close(self) -> None:
        self.conn.close()


class AutocommitPsycopg(Psycopg):
    async def open(self) -> None:
        self.conn = psycopg.connect(self.dsn, autocommit=True)

    async def begin(self) -> None:
        self.block = self.conn.transaction()
        self.block.__enter__()

    async def commit(self) -> None:
        self.block.__exit__(None, None, None)

    async def rollback(self) -> None:
        self.block.__exit__(psycopg.Rollback, psycopg.Rollback(), None)


class AsyncPsycopg(Kind):
    awaited = True

    async def open(self) -> None:
        self.conn = await psycopg.AsyncConnection.connect(self.dsn)


class Asyncpg(Kind):
    awaited = True

    async def open(self) -> None:
        self.conn = await asyncpg.connect(self.dsn)

    async def begin(self) -> None:
        self.transaction = self.conn.transaction()
        await self.transaction.start()

    async def execute(self, statement: str) -> None:
        await self.conn.execute(statement)

    async def savepoint(self) -> None:
        self.inner = self.conn.transaction()
        await self.inner.start()

    async def back_to_savepoint(self) -> None:
        await self.inner.rollback()

    async def commit(self) -> None:
        await self.transaction.commit()

    async def rollback(self) -> None:
        await self.transaction.rollback()


class PooledAsyncpg(Asyncpg):
    async def open(self) -> None:
        self.pool = await asyncpg.create_pool(self.dsn, min_size=1, max_size=1)
        self.conn = await self.pool.acquire()

    async def close(self) -> None:
        await self.pool.release(self.conn)
        await self.pool.close()


def url(dsn: str, library: str) -> str:
    return dsn.replace("postgresql://", f"postgresql+{library}://")


class SqlalchemyConnection(Kind):
    awaited = False

    async def open(self) -> None:
        self.engine = sa.create_engine(url(self.dsn, "psycopg"), poolclass=NullPool)
        self.conn = self.engine.connect()

    async def execute(self, statement: str) -> None:
        self.conn.execute(sa.text(statement))

    async def savepoint(self) -> None:
        self.inner = self.conn.begin_nested()

    async def back_to_savepoint(self) -> None:
        self.inner.rollback()

    async def commit(self) -> None:
        self.conn.commit()

    async def rollback(self) -> None:
        self.conn.rollback()

    async def close(self) -> None:
        self.conn.close()
        self.engine.dispose()

    async def open_in_autocommit_mode(self) -> None:
        await self.close()
        self.conn = type(self.conn)(self.engine.execution_options(isolation_level="AUTOCOMMIT"))


class SqlalchemySession(SqlalchemyConnection):
    hooked = True

    async def open(self) -> None:
        self.engine = sa.create_engine(url(self.dsn, "psycopg"), poolclass=NullPool)
        self.conn = Session(self.engine)


class AsyncSqlalchemy(Kind):
    awaited = True
    library: ClassVar[str]

    async def open(self) -> None:
        self.engine = create_async_engine(url(self.dsn, self.library), poolclass=NullPool)
        self.conn = await AsyncConnection(self.engine)

    async def execute(self, statement: str) -> None:
        await self.conn.execute(sa.text(statement))

    async def savepoint(self) -> None:
        self.inner = await self.conn.begin_nested()

    async def back_to_savepoint(self) -> None:
        await self.inner.rollback()

    async def close(self) -> None:
        await self.conn.close()
        await self.engine.dispose()

    async def open_in_autocommit_mode(self) -> None:
        await self.close()
        self.conn = type(self.conn)(self.engine.execution_options(isolation_level="AUTOCOMMIT"))
        if isinstance(self.conn, AsyncConnection):
            await self.conn.start()


class SqlalchemyAsyncpgConnection(AsyncSqlalchemy):
    library = "asyncpg"


class SqlalchemyAsyncPsycopgConnection(AsyncSqlalchemy):
    library = "psycopg"


class SqlalchemyAsyncpgSession(AsyncSqlalchemy):
    library = "asyncpg"
    hooked = True

    async def open(self) -> None:
        self.engine = create_async_engine(url(self.dsn, self.library), poolclass=NullPool)
        self.conn = AsyncSession(self.engine)


class SqlalchemyAsyncPsycopgSession(SqlalchemyAsyncpgSession):
    library = "psycopg"


class Django(Kind):
    awaited = False
    hooked = True

    async def open(self) -> None:
        from django.conf import settings
        from django.db import connections

        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # these programs have a loop, for the driver's own calls
        if not settings.configured:
            settings.configure(DATABASES={}, USE_TZ=True)
            django.setup()
        parts = urlsplit(self.dsn)
        place = {
            "ENGINE": "django.db.backends.postgresql", "NAME": parts.path[1:], "HOST": parts.hostname, "PORT": parts.port,
            "USER": parts.username,
        }  # fmt: skip
        connections.settings = connections.configure_settings({"default": place})
        self.connections = connections
        self.conn = connections["default"]

    async def begin(self) -> None:
        from django.db import transaction

        self.block = transaction.atomic()
        self.block.__enter__()

    async def execute(self, statement: str) -> None:
        with self.conn.cursor() as cursor:
            cursor.execute(statement)

    async def savepoint(self) -> None:
        from django.db import transaction

        self.inner = transaction.atomic()
        self.inner.__enter__()

    async def back_to_savepoint(self) -> None:
        self.inner.__exit__(ValueError, ValueError(), None)

    async def commit(self) -> None:
        self.block.__exit__(None, None, None)

    async def rollback(self) -> None:
        self.block.__exit__(ValueError, ValueError(), None)

    async def close(self) -> None:
        self.conn.close()
        del self.connections["default"]


class DjangoProxy(Django):
    """`django.db.connection`, which most programs hold."""

    async def open(self) -> None:
        from django.db import connection

        await super().open()
        self.conn = connection


KINDS: tuple[type[Kind], ...] = (
    Psycopg, AutocommitPsycopg, AsyncPsycopg, Asyncpg, PooledAsyncpg, SqlalchemyConnection, SqlalchemySession,
    SqlalchemyAsyncpgConnection, SqlalchemyAsyncPsycopgConnection, SqlalchemyAsyncpgSession,
    SqlalchemyAsyncPsycopgSession, Django, DjangoProxy,
)  # fmt: skip
