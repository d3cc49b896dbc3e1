"""Producers and workers that go on while their store is copied."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from served import Server
from windlass import Windlass
from windlass.clock import SECOND
from windlass.copy_errors import StoreMoved
from windlass.drivers.copying import End
from windlass.drivers.http import HttpDriver
from windlass.drivers.values import JobQuery
from windlass.types import NewJob

from .ends import Place, Places, copier

PATIENCE = 30.0


def produce(place: Place, stored: list[str], told: list[str], begun: threading.Event) -> None:
    """One job after the other, until the store says that it has moved."""

    async def main() -> None:
        app = place.app()

        @app.task
        async def noted(n: int) -> None: ...

        async with app:
            try:
                for n in range(100_000):
                    stored.append((await noted.enqueue(n)).id)
                    if n == 20:
                        begun.set()
            except StoreMoved as error:
                told.append(error.moved_to)

    asyncio.run(main())


@pytest.mark.parametrize(("here", "there"), [("sqlite", "postgres"), ("postgres", "sqlite")])
def test_what_producers_were_told_is_stored_is_in_the_target(places: Places, here: str, there: str) -> None:
    source, target = places.new(here), places.new(there)
    stored: list[list[str]] = [[], []]
    told: list[str] = []
    begun = [threading.Event() for _ in stored]
    threads = [
        threading.Thread(target=produce, args=(source, ids, told, event)) for ids, event in zip(stored, begun, strict=True)
    ]
    for thread in threads:
        thread.start()
    assert all(event.wait(PATIENCE) for event in begun)
    with source.end() as left, target.end() as right:
        copier(left, right).run()
        where = right.where
    for thread in threads:
        thread.join(PATIENCE)
    assert told == [where, where]
    ids = [name for some in stored for name in some]
    assert len(ids) > 40

    async def found() -> list[str]:
        app = target.app()
        async with app:
            return [job.id for job in await app.client.driver.get(ids) if job is not None]

    assert asyncio.run(found()) == ids


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110 - of what others do, nobody tells
            await asyncio.sleep(0.02)


async def in_thread(work: Callable[[End, End], object], source: Place, target: Place) -> None:
    def both() -> None:
        with source.end() as left, target.end() as right:
            work(left, right)

    await asyncio.to_thread(both)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_worker_rests_while_its_store_has_moved_and_goes_on_when_that_is_given_up(
    places: Places, kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = places.new(kind), places.new("sqlite")

    async def main() -> None:
        app = source.app(poll="100ms")
        done: list[int] = []

        @app.task
        async def noted(n: int) -> None:
            done.append(n)

        async def ran(*expected: int) -> bool:
            return done == list(expected)

        async def rests() -> bool:
            return any("no jobs are claimed" in line and "has moved" in line for line in caplog.messages)

        async with app:
            worker = app.worker()
            running = asyncio.create_task(worker.run())
            await noted.enqueue(1)
            await until(lambda: ran(1))
            monkeypatch.setattr(End, "last_numbers", interrupted)
            receive = End.receive

            def late(self: End, *args: Any) -> list[str]:
                """Claims are paused: what is stored now waits."""
                noted.enqueue_sync(2)
                return receive(self, *args)

            monkeypatch.setattr(End, "receive", late)

            def begin(left: End, right: End) -> None:
                with pytest.raises(Stop):
                    copier(left, right, abandon=False, wait=20 * SECOND).run()

            await in_thread(begin, source, target)
            await until(rests)
            assert not running.done(), "it does not end, nor begin again and again"
            monkeypatch.undo()
            await in_thread(lambda left, right: copier(left, right).give_up(), source, target)
            await until(lambda: ran(1, 2))
            await noted.enqueue(3)
            await until(lambda: ran(1, 2, 3))
            await in_thread(lambda left, right: copier(left, right, abandon=False, wait=20 * SECOND).run(), source, target)
            worker.stop()
            async with asyncio.timeout(PATIENCE):
                await running

    asyncio.run(main())
    assert sum("no jobs are claimed" in line for line in caplog.messages) <= 4, "once for each reason, each time"


class Stop(BaseException):
    pass


def interrupted(*_: object) -> None:
    raise Stop


def test_a_worker_that_begins_on_a_store_that_has_moved_ends_with_where_to(places: Places) -> None:
    source, target = places.new("sqlite"), places.new("sqlite")

    def made(place: Place) -> Windlass:
        app = place.app()
        app.queue("mail", order="fair")

        @app.task(queue="mail")
        async def noted(n: int) -> None: ...

        return app

    async def store() -> None:
        async with made(source) as app:
            await app.tasks["noted"].enqueue(1)

    async def begin() -> None:
        async with made(source) as app:
            await app.worker().run(drain=True)

    asyncio.run(store())
    with source.end() as left, target.end() as right:
        copier(left, right).run()
    with pytest.raises(StoreMoved, match=r"store2\.db"):
        asyncio.run(begin())


def test_a_job_that_was_abandoned_runs_again_on_the_target(places: Places) -> None:
    source, target = places.new("sqlite"), places.new("sqlite")
    runs: list[str] = []

    def made(place: Place) -> Windlass:
        app = place.app(lease="2s", grace="1s", poll="100ms")

        @app.task
        async def slow() -> None:
            runs.append(place.url)
            if place is source:
                await asyncio.Event().wait()

        return app

    async def begin() -> None:
        async with made(source) as app:
            await app.tasks["slow"].enqueue()
            worker = app.worker()
            running = asyncio.create_task(worker.run())

            async def begun() -> bool:
                return bool(runs)

            await until(begun)
            await in_thread(lambda left, right: copier(left, right).run(), source, target)
            worker.stop()
            async with asyncio.timeout(PATIENCE):
                await running  # what its handler came to cannot be stored, and is not waited for without end

    async def finish() -> None:
        async with made(target) as app:
            running = asyncio.create_task((worker := app.worker()).run())

            async def ended() -> bool:
                page = await app.client.driver.find(JobQuery(limit=1))
                return page.jobs[0].state == "succeeded" and page.jobs[0].lost == 1

            await until(ended)
            worker.stop()
            await running

    asyncio.run(begin())
    asyncio.run(finish())
    assert runs == [source.url, target.url]


def test_a_transaction_that_wrote_before_the_move_is_in_the_copy_and_one_that_writes_after_it_is_refused(
    places: Places,
) -> None:
    """On PostgreSQL, where many write at once: no write lies on both sides of the mark."""
    source, target = places.new("postgres"), places.new("sqlite")
    schema = source.options["schema"]
    enqueue = f"select * from \"{schema}\".enqueue('x', id => %s)"
    with psycopg.connect(source.url) as early, psycopg.connect(source.url) as late:
        late.execute("set transaction isolation level repeatable read")
        late.execute(f'select * from "{schema}".queues')  # from here on it sees the store as it is now
        early.execute(enqueue, ["early"])
        with source.end() as left, target.end() as right:
            copying = threading.Thread(target=copier(left, right).run)
            copying.start()
            waiting = "select 1 from pg_locks where not granted and mode = 'ShareRowExclusiveLock'"
            for _ in range(int(PATIENCE / 0.02)):
                with psycopg.connect(source.url) as other:
                    if other.execute(waiting).fetchone() is not None:
                        break
                copying.join(0.02)
            assert copying.is_alive(), "who has written is waited for"
            early.commit()
            copying.join(PATIENCE)
            assert not copying.is_alive()
            assert right.counts()["jobs"] == 1
        with pytest.raises(psycopg.Error, match="this store has moved to") as refused:
            late.execute(enqueue, ["late"])
        assert refused.value.sqlstate == "WL001"


def test_over_http_one_is_told_that_the_store_has_moved(places: Places) -> None:
    source, target = places.new("sqlite"), places.new("sqlite")
    server = Server()

    async def main() -> None:
        app = source.app()
        async with app:
            far = HttpDriver(server.store(app.client.driver))
            await far.enqueue([NewJob(id="one", type="x")], now=app.client.now())
            await in_thread(lambda left, right: copier(left, right).run(), source, target)
            with pytest.raises(StoreMoved, match="its operator finds in the log") as refused:
                await far.enqueue([NewJob(id="two", type="x")], now=app.client.now())
            assert not refused.value.moved_to, "an address of a store is not for everybody"
            assert (await far.get(["one"]))[0] is not None
            await far.close()

    asyncio.run(main())
    server.stop()
