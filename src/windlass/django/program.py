"""The `Windlass` of a Django project, as its settings describe it.

As the name of a program it is `windlass.django.worker:app`; here nothing is imported that needs the project to be set up.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.db import close_old_connections, connections

from windlass.app import Windlass
from windlass.client import Client, joined
from windlass.config import Settings
from windlass.context import Context
from windlass.django.configuring import Configured, configured, url_of
from windlass.drivers.values import Enqueued
from windlass.errors import WindlassError
from windlass.types import Micros, NewJob
from windlass.worker import Worker

TARGET: Final = "windlass.django.worker:app"
log: Final = logging.getLogger("windlass.django")
_lock: Final = threading.Lock()
_made: Final[list[DjangoApp]] = []


class DjangoClient(Client):
    """Knows where Django's database is when it is asked, since a test runner puts another one in its place. What is
    enqueued inside of `transaction.atomic()` is part of that transaction, where the jobs are in that database."""

    def __init__(self, conf: Configured, settings: Settings) -> None:
        self._conf = conf
        self._said: str | None = None
        super().__init__("", settings)

    @property
    def url(self) -> str:
        """Also noted where clients that act for somebody look, which share all but the class."""
        found = self._said or self._conf.url
        if not found:
            found = url_of(connections[self._conf.database].settings_dict, self._conf.database)
        vars(self)["url"] = found
        return found

    @url.setter
    def url(self, url: str) -> None:
        """Said by a command; an empty one is none."""
        self._said = url or None

    def now_beside(self, conn: object) -> Micros:
        return super().now_beside(conn if conn is not None else self._django_transaction())

    def enqueue_sync(self, new: Sequence[NewJob], now: Micros, conn: object = None, notify: bool = True) -> list[Enqueued]:
        if conn is None and joined.get() is None:
            conn = self._django_transaction()
        return super().enqueue_sync(new, now, conn, notify)

    def _django_transaction(self) -> Any:
        if self._said or not self._conf.in_django or self.url == "memory://":
            return None
        wrapper = connections[self._conf.database]
        if not wrapper.in_atomic_block:
            return None
        return wrapper.connection if wrapper.vendor == "sqlite" else wrapper


class DjangoApp(Windlass):
    def __init__(self) -> None:
        conf = configured()
        super().__init__("memory://", **conf.settings)
        self.conf: Final = conf
        self.client = DjangoClient(conf, self.client.settings)
        self.target = TARGET
        self.django_tasks: Final[dict[str, Any]] = {}  # those of django.tasks, by their module path
        self.django_queues: Final[set[str]] = set()  # that its backends may use
        self.layers.add(_closing_connections)
        self.layers.add(_closing_connections_of_coroutines, optional=True)

    @property
    def client(self) -> Client:
        """With its URL noted as it is now: whoever acts for somebody asks for the client first."""
        if isinstance(self._client, DjangoClient):
            assert self._client.url, "a store has one"
        return self._client

    @client.setter
    def client(self, client: Client) -> None:
        self._client = client

    def worker(self, *, queues: Sequence[str] | None = None, **options: Any) -> Worker:
        """A task of `django.tasks` may be sent to any queue of its backend."""
        served = {task.queue for task in self.tasks.values()} | self.django_queues
        return super().worker(queues=queues or sorted(served), **options)


def the_app() -> DjangoApp:
    with _lock:
        if not _made:
            _made.append(DjangoApp())
        return _made[0]


def open_store() -> None:
    """While nobody holds its lock. Whatever is wrong with it is for whoever enqueues to hear."""
    client = the_app().client
    if client.url != "memory://":
        try:
            client.open()
        except WindlassError as error:
            log.warning("the store of jobs cannot be opened: %s", error)


def _closing_connections(ctx: Context) -> Iterator[None]:
    """A handler is to Django what a request is: a connection that is broken or too old is closed before and after it."""
    if _has_loop():
        yield
        return
    close_old_connections()
    try:
        yield
    finally:
        close_old_connections()


async def _closing_connections_of_coroutines(ctx: Context) -> AsyncGenerator[None]:
    """The connections that an async handler uses are of the thread in which Django runs its queries."""
    await sync_to_async(close_old_connections)()
    try:
        yield
    finally:
        await sync_to_async(close_old_connections)()


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
