"""Who commits what, and in which thread: an event loop never waits for anything but a quick commit."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import apsw
import pytest

from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.sqlite.checkpoint import Checkpoint
from windlass.drivers.sqlite.command import Command
from windlass.drivers.sqlite.lane import LIGHT, PROOF, QUICK, Step
from windlass.drivers.sqlite.library import Library
from windlass.errors import ConstraintViolated, DriverForked, StoreBusy
from windlass.types import NewJob

NOW = 10**15


def job(name: str, **fields: object) -> NewJob:
    return NewJob(id=name, type="work", **fields)  # type: ignore[arg-type]


class Witness:
    """Notes the thread of every commit: "loop" for the one that made this, "lane" for the driver's."""

    def __init__(self) -> None:
        self.commits: list[str] = []
        self._here = threading.current_thread()

    def __call__(self, step: Step) -> None:
        if step == "after_commit":
            thread = threading.current_thread()
            self.commits.append("loop" if thread is self._here else "lane" if "writer" in thread.name else "other")


@pytest.fixture
def lane_clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A clock by which every commit is quick, until a test moves it."""
    moment = [0]
    monkeypatch.setattr("windlass.drivers.sqlite.lane.since_boot", lambda: moment[0])
    return moment


@asynccontextmanager
async def proven(path: Path, *, library: Library = "apsw", busy_timeout: float = 5.0) -> AsyncIterator[SqliteDriver]:
    """A driver whose commits have been quick for long enough."""
    driver = SqliteDriver(path / "jobs.db", sqlite=library, busy_timeout=busy_timeout)
    for n in range(PROOF):
        await driver.enqueue([job(f"proof-{n}")], now=NOW)
    witness = Witness()
    driver._writer.on_step = witness
    try:
        yield driver
    finally:
        driver._writer.on_step = None
        await driver.close()


def seen(driver: SqliteDriver) -> list[str]:
    assert isinstance(driver._writer.on_step, Witness)
    return driver._writer.on_step.commits


@contextmanager
def locked(path: Path) -> Iterator[Callable[[], None]]:
    """Another connection holds the write lock until it is told to let go."""
    connection = apsw.Connection(str(path / "jobs.db"))
    connection.execute("begin immediate")

    def let_go() -> None:
        connection.execute("rollback")

    try:
        yield let_go
    finally:
        if connection.in_transaction:
            let_go()
        connection.close()


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def kept(driver: SqliteDriver, *names: str) -> list[str]:
    return [row.id for row in await driver.get(names) if row is not None]


# --------------------------------------------------------------------------------------------------- in the loop's thread


@pytest.mark.usefixtures("lane_clock")
@pytest.mark.parametrize("library", ["apsw", "stdlib"])
def test_ten_callers_of_one_turn_of_the_loop_share_one_commit(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.drivers.sqlite.driver.is_affected", lambda _: True)

    async def main() -> None:
        async with proven(tmp_path, library=library) as driver:
            for turn in range(3):
                names = [f"{turn}-{n}" for n in range(10)]
                answers = await asyncio.gather(*[driver.enqueue([job(name)], now=NOW) for name in names])
                assert [answer.id for [answer] in answers] == names
                assert await kept(driver, *names) == names
            assert seen(driver) == ["loop"] * 3

    asyncio.run(main())


@pytest.mark.usefixtures("lane_clock")
def test_two_event_loops_share_a_driver(tmp_path: Path) -> None:
    async def many(driver: SqliteDriver, stem: str) -> None:
        for n in range(100):
            await driver.enqueue([job(f"{stem}-{n}")], now=NOW)

    async def main() -> None:
        async with proven(tmp_path) as driver:
            await asyncio.gather(many(driver, "a"), asyncio.to_thread(lambda: asyncio.run(many(driver, "b"))))
            names = [f"{stem}-{n}" for stem in "ab" for n in range(100)]
            assert await kept(driver, *names) == names

    asyncio.run(main())


@pytest.mark.usefixtures("lane_clock")
def test_a_producer_that_never_pauses_lets_others_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with proven(tmp_path) as driver:
            beats = 0

            async def heart() -> None:
                nonlocal beats
                while True:
                    beats += 1
                    await asyncio.sleep(0)

            heart_task = asyncio.ensure_future(heart())
            for n in range(20):
                await driver.enqueue([job(str(n))], now=NOW)
            heart_task.cancel()
            assert seen(driver) == ["loop"] * 20
            assert beats >= 20

    asyncio.run(main())


@pytest.mark.usefixtures("lane_clock")
def test_one_mistake_in_a_turn_is_one_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with proven(tmp_path) as driver:
            batches = [[job("a")], [job("proof-0")], [job("b")], [job("")], [job("c"), job("c")], [job("d")]]
            calls = [driver.enqueue(batch, now=NOW) for batch in batches]
            kinds = [type(answer).__name__ for answer in await asyncio.gather(*calls, return_exceptions=True)]
            assert kinds == ["list", "DuplicateId", "list", "InvalidInput", "DuplicateId", "list"]
            assert await kept(driver, "a", "b", "c", "d") == ["a", "b", "d"]
            assert set(seen(driver)) == {"lane"}, "one commit after the other is too long for a loop"
            [alone] = await asyncio.gather(driver.enqueue([job("a")], now=NOW), return_exceptions=True)
            assert type(alone).__name__ == "DuplicateId"
            await driver.enqueue([job("e")], now=NOW)
            assert seen(driver)[-1] == "loop"

    asyncio.run(main())


@pytest.mark.usefixtures("lane_clock")
@pytest.mark.parametrize("victims", [{"a"}, {"b"}, {"a", "c"}, {"a", "b", "c"}])
def test_who_is_cancelled_within_the_turn_changes_nothing_and_disturbs_nobody(tmp_path: Path, victims: set[str]) -> None:
    async def main() -> None:
        async with proven(tmp_path) as driver:
            calls = {name: asyncio.ensure_future(driver.enqueue([job(name)], now=NOW)) for name in "abc"}
            await asyncio.sleep(0)  # they have asked, and the turn has not ended
            for name in victims:
                calls[name].cancel()
            answers = await asyncio.gather(*calls.values(), return_exceptions=True)
            lost = {name for name, answer in zip(calls, answers, strict=True) if not isinstance(answer, list)}
            assert lost == victims
            assert set(await kept(driver, *"abc")) == set("abc") - victims

    asyncio.run(main())


@pytest.mark.usefixtures("lane_clock")
def test_an_interrupt_is_the_callers_and_leaves_nothing_behind(tmp_path: Path) -> None:
    driver = SqliteDriver(tmp_path / "jobs.db")
    companion: list[asyncio.Future[object]] = []

    def interrupt(step: Step) -> None:
        if step == "before_commit":
            raise KeyboardInterrupt

    async def main() -> None:
        for n in range(PROOF):
            await driver.enqueue([job(f"proof-{n}")], now=NOW)
        driver._writer.on_step = interrupt
        companion.append(asyncio.ensure_future(driver.enqueue([job("b")], now=NOW)))
        await driver.enqueue([job("a")], now=NOW)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert companion[0].cancelled()
    with pytest.raises(KeyboardInterrupt):
        driver.enqueue_sync([job("c")], now=NOW)
    driver._writer.on_step = None
    driver.enqueue_sync([job("d")], now=NOW)
    assert asyncio.run(kept(driver, *"abcd")) == ["d"]
    asyncio.run(driver.close())


# ------------------------------------------------------------------------------------------------------ never too long


@pytest.mark.usefixtures("lane_clock")
def test_a_loop_waits_for_commits_only_after_they_have_proved_quick(tmp_path: Path) -> None:
    async def main() -> None:
        driver = SqliteDriver(tmp_path / "jobs.db")
        witness = driver._writer.on_step = Witness()
        for n in range(PROOF + 3):
            await driver.enqueue([job(str(n))], now=NOW)
        await driver.close()
        assert witness.commits == ["lane"] * PROOF + ["loop"] * 3

    asyncio.run(main())


def test_a_slow_commit_sends_the_next_ones_to_the_thread(tmp_path: Path, lane_clock: list[int]) -> None:
    async def main() -> None:
        async with proven(tmp_path) as driver:
            witness = driver._writer.on_step
            assert isinstance(witness, Witness)

            def slow(step: Step) -> None:
                witness(step)
                lane_clock[0] += QUICK if step == "before_commit" else 0

            driver._writer.on_step = slow
            for n in range(5):
                await driver.enqueue([job(f"slow-{n}")], now=NOW)
            driver._writer.on_step = witness
            for n in range(PROOF + 2):
                await driver.enqueue([job(f"quick-{n}")], now=NOW)
            assert witness.commits == ["loop"] + ["lane"] * 4 + ["lane"] * PROOF + ["loop"] * 2

    asyncio.run(main())


@pytest.mark.usefixtures("lane_clock")
def test_much_work_is_the_threads(tmp_path: Path) -> None:
    async def main() -> None:
        async with proven(tmp_path) as driver:
            await driver.enqueue([job(f"many-{n}") for n in range(LIGHT)], now=NOW)
            await driver.enqueue([job(f"more-{n}") for n in range(LIGHT + 1)], now=NOW)
            await driver.enqueue([job("large", payload=b"x" * 4096 * LIGHT)], now=NOW)
            assert seen(driver) == ["loop", "lane", "lane"]
            await asyncio.gather(*[driver.enqueue([job(f"crowd-{n}")], now=NOW) for n in range(LIGHT + 1)])
            assert set(seen(driver)[3:]) == {"lane"}

    asyncio.run(main())


@pytest.mark.usefixtures("lane_clock")
def test_a_lock_of_another_process_never_stops_the_loop(tmp_path: Path) -> None:
    """The lock is held until the loop's heart has beaten often, or has not for long."""
    alive, outcome = threading.Event(), []

    async def main() -> None:
        async with proven(tmp_path, busy_timeout=30) as driver:
            await driver.enqueue([job("before")], now=NOW)
            with locked(tmp_path) as let_go:

                def hold() -> None:
                    outcome.append(alive.wait(3))
                    let_go()

                holder = asyncio.get_running_loop().run_in_executor(None, hold)
                calls = [asyncio.ensure_future(driver.enqueue([job(f"j{n}")], now=NOW)) for n in range(3)]
                for _ in range(50):
                    await asyncio.sleep(0.001)
                assert not any(call.done() for call in calls)
                alive.set()
                await holder
                await asyncio.gather(*calls)
            assert seen(driver) == ["loop", "lane"]

    asyncio.run(main())
    assert outcome == [True], "the loop stood still while another process held the lock"


@pytest.mark.usefixtures("lane_clock")
def test_after_a_commit_on_the_loop_the_others_wait_for_a_lock_as_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with proven(tmp_path, busy_timeout=10) as driver:
            await driver.enqueue([job("on the loop")], now=NOW)
            assert seen(driver) == ["loop"]
            with locked(tmp_path) as let_go:
                waiting = asyncio.ensure_future(asyncio.to_thread(driver.enqueue_sync, [job("blocking")], now=NOW))
                await asyncio.sleep(0.05)
                let_go()
                await waiting

    asyncio.run(main())


@pytest.mark.usefixtures("lane_clock")
def test_a_blocking_caller_waits_for_a_lock_within_bounds(tmp_path: Path) -> None:
    driver = SqliteDriver(tmp_path / "jobs.db", busy_timeout=0.1)
    with locked(tmp_path), pytest.raises(StoreBusy):
        driver.enqueue_sync([job("late")], now=NOW)
    driver.enqueue_sync([job("in time")], now=NOW)
    asyncio.run(driver.close())


@pytest.mark.usefixtures("lane_clock")
def test_the_wal_is_kept_small_but_not_by_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.drivers.sqlite.checkpoint.PAGES", 50)
    copiers: list[str] = []
    checkpoint = Checkpoint.__call__

    def noted(self: Checkpoint) -> None:
        copiers.append(threading.current_thread().name)
        checkpoint(self)

    monkeypatch.setattr(Checkpoint, "__call__", noted)

    async def main() -> int:
        async with proven(tmp_path) as driver:
            for n in range(200):
                await driver.enqueue([job(str(n))], now=NOW)
            assert "loop" in seen(driver)
            return os.stat(tmp_path / "jobs.db-wal").st_size

    assert asyncio.run(main()) < 150 * 4_200
    assert set(copiers) == {"windlass-writer"}


# ------------------------------------------------------------------------------------------------------------ the end


@pytest.mark.usefixtures("lane_clock")
def test_closing_within_the_turn_finishes_what_was_sent(tmp_path: Path) -> None:
    async def main() -> None:
        async with proven(tmp_path) as driver:
            calls = [asyncio.ensure_future(driver.enqueue([job(name)], now=NOW)) for name in "abc"]
            await asyncio.sleep(0)
            driver._writer.close()
            answers = await asyncio.wait_for(asyncio.gather(*calls), 10)
            assert [answer.id for [answer] in answers] == ["a", "b", "c"]
            assert await kept(driver, *"abc") == ["a", "b", "c"]

    asyncio.run(main())


@pytest.mark.usefixtures("lane_clock")
def test_a_fork_within_the_turn_stores_each_job_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with proven(tmp_path) as driver:
            calls = [asyncio.ensure_future(driver.enqueue([job(name)], now=NOW)) for name in "ab"]
            await asyncio.sleep(0)
            child = os.fork()
            if child == 0:
                answers = await asyncio.gather(*calls, return_exceptions=True)
                try:
                    driver.enqueue_sync([job("c")], now=NOW)
                except DriverForked:
                    os._exit(0 if {type(answer) for answer in answers} == {DriverForked} else 2)
                os._exit(1)
            assert exit_code(child) == 0
            await asyncio.gather(*calls)
            assert await kept(driver, *"abc") == ["a", "b"]

    asyncio.run(main())


# -------------------------------------------------------------------------------------------------------- blocking callers


def test_a_blocking_caller_commits_for_itself_when_nobody_else_does(tmp_path: Path) -> None:
    driver = SqliteDriver(tmp_path / "jobs.db")
    witness = driver._writer.on_step = Witness()
    for n in range(3):
        driver.enqueue_sync([job(str(n))], now=NOW)
    assert witness.commits == ["loop"] * 3  # that is: in this thread, which has no loop
    asyncio.run(driver.close())


def test_blocking_callers_that_come_during_a_commit_share_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    driver = SqliteDriver(tmp_path / "jobs.db")
    lane, witness, begun = driver._writer, Witness(), threading.Event()
    sent: list[object] = []
    send = lane._send

    def counted(command: Command) -> None:
        send(command)
        sent.append(command)

    monkeypatch.setattr(lane, "_send", counted)

    def hold(step: Step) -> None:
        witness(step)
        if step == "begun" and not begun.is_set():
            begun.set()
            for _ in range(2_000):  # until the others have come
                if len(sent) == 5:
                    break
                time.sleep(0.001)

    lane.on_step = hold
    threads = [threading.Thread(target=driver.enqueue_sync, args=([job(str(n))],), kwargs={"now": NOW}) for n in range(6)]
    threads[0].start()
    begun.wait()
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(witness.commits) <= 3, "each paid for a commit of its own"
    assert len(asyncio.run(kept(driver, *"012345"))) == 6
    asyncio.run(driver.close())


def test_what_the_commit_refuses_of_one_command_keeps_nothing_of_those_that_share_it(tmp_path: Path) -> None:
    """A deferred foreign key of an application, which a trigger of theirs breaks, is looked at by the commit."""

    async def main() -> None:
        driver = SqliteDriver(path := tmp_path / "jobs.db")
        theirs = apsw.Connection(str(path))
        theirs.execute("create table parents (id integer primary key)")
        theirs.execute("create table children (id references parents deferrable initially deferred)")
        theirs.execute(
            "create trigger of_theirs after insert on jobs when new.type = 'bad' begin insert into children values (1); end"
        )
        theirs.close()
        mixed = [[job("a")], [NewJob(id="b", type="bad")], [job("c")]]
        told = await asyncio.gather(*(driver.enqueue(jobs, now=NOW) for jobs in mixed), return_exceptions=True)
        assert [type(one) for one in told] == [list, ConstraintViolated, list]
        assert [row is not None for row in await driver.get(["a", "b", "c"])] == [True, False, True]
        await driver.close()

    asyncio.run(main())
