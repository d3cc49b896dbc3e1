"""Who may write to which store, at each moment of a copy, and what is said to those who may not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import apsw
import psycopg
import pytest
from msgspec.structs import replace

from windlass import copying as module
from windlass.apart import apart
from windlass.clock import LAST_INSTANT, SECOND
from windlass.copy_errors import CopyRefused, StoreMoved, StoreMoving
from windlass.copying import Copy
from windlass.core.alterations import Cancel, Delete, PutQueue
from windlass.core.changes import Ack, Snooze
from windlass.core.copying import TABLES, Mark
from windlass.core.counters import MOST_COUNTED
from windlass.core.duties import Done, RecountLimits
from windlass.core.queries import AllLimits
from windlass.drivers.copying import End, open_end
from windlass.drivers.ops import copying
from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.postgres import copying as of_postgres
from windlass.drivers.postgres.copying import HAND
from windlass.drivers.postgres.link import BEGIN, COMMIT, ROLLBACK, Link
from windlass.drivers.protocol import Driver
from windlass.drivers.values import Claim, JobQuery
from windlass.errors import StoreBusy, StoreError
from windlass.records import WorkerInfo
from windlass.types import Job, NewJob

from .ends import HOUR, Place, Places, copier, digests, filled

KINDS = ["sqlite", "postgres"]
WORKER = WorkerInfo(
    id="w", hostname="h", pid=1, pool_size=1, version="", queues=(), types=(), wakeups="", running=0, started_at=1
)


def wish(limit: int = 1) -> Claim:
    return Claim(queues=("default",), limit=limit, lease_for=HOUR, worker_id="w", token="t")


async def work(driver: Driver, name: str) -> str | None:
    """Store a job and run it; the kind of error that came instead, if any."""
    now = driver.clock.now()  # type: ignore[attr-defined]
    try:
        await driver.enqueue([NewJob(id=name, type="x")], now=now)
        for job in await driver.claim(wish(100), now=now):
            await driver.settle([Ack(handle=job.handle, token=job.token, at=now)], now=now)
    except StoreError as error:
        return type(error).__name__
    return None


def opened(place: Place, body: Callable[[Driver], Any]) -> Any:
    async def main() -> Any:
        app = place.app()
        async with app:
            return await body(app.client.driver)

    return apart(main)


@pytest.mark.parametrize("kind", KINDS)
def test_while_running_jobs_are_waited_for_nothing_is_claimed_and_all_else_goes_on(places: Places, kind: str) -> None:
    source, target = places.new(kind), places.new("sqlite")

    async def body(driver: Driver) -> None:
        now = driver.clock.now()  # type: ignore[attr-defined]
        await driver.enqueue([NewJob(id="one", type="x"), NewJob(id="two", type="x")], now=now)
        [running] = await driver.claim(wish(), now=now)

        with source.end() as left, target.end() as right:
            noticed: list[int] = []

            def stop(_: float) -> None:
                noticed.append(1)
                raise KeyboardInterrupt

            copying = copier(left, right, abandon=False, wait=HOUR, sleep=stop)
            with pytest.raises(KeyboardInterrupt):
                copying.run()
            assert noticed, "it waited for the job that runs"
            with pytest.raises(StoreMoving, match="none is claimed"):
                await driver.claim(wish(), now=now)
            await driver.enqueue([NewJob(id="three", type="x")], now=now)
            assert await driver.settle([Ack(handle=running.handle, token=running.token, at=now)], now=now) == ["applied"]
            copier(left, right, abandon=False).run()
            assert right.counts()["jobs"] == 3
        with pytest.raises(StoreMoved, match=r"store2\.db"):
            await driver.enqueue([NewJob(id="four", type="x")], now=now)

    opened(source, body)


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_has_moved_refuses_every_kind_of_write(places: Places, kind: str) -> None:
    source, target = places.new(kind), places.new("sqlite")

    async def body(driver: Driver) -> None:
        now = driver.clock.now()  # type: ignore[attr-defined]
        await driver.enqueue([NewJob(id="one", type="x"), NewJob(id="two", type="x")], now=now)
        [running] = await driver.claim(wish(), now=now)
        await driver.beat(WORKER, now=now)
        with source.end() as left, target.end() as right:
            copier(left, right).run()
            held = digests(left)
        ack = Ack(handle=running.handle, token=running.token, at=now)
        writes: list[Callable[[], Any]] = [
            lambda: driver.enqueue([NewJob(id="three", type="x", idempotency_key="k", idempotency_scope="s")], now=now),
            lambda: driver.claim(wish(), now=now),
            lambda: driver.settle([ack], now=now),
            lambda: driver.alter([PutQueue(name="q")], now=now),
            lambda: driver.beat(WORKER, now=now),
            lambda: driver.lead("w", lease_for=SECOND, now=now),
            lambda: driver.expire(now=now + 2 * HOUR, limit=10),
        ]
        for write in writes:
            with pytest.raises(StoreMoved) as refused:
                await write()
            assert refused.value.moved_to.endswith("store2.db")
            assert not refused.value.retryable
        with source.end() as left:
            assert digests(left) == held
        assert (await driver.get(["one"]))[0] is not None, "it can be looked at"

    opened(source, body)


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_is_being_filled_takes_nothing_from_others(
    places: Places, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = places.new("sqlite"), places.new(kind)
    filled(source)
    told: list[str | None] = []
    before = End.put

    def put(self: End, *args: Any) -> None:
        before(self, *args)
        if len(told) < 2:
            told.append(opened(target, lambda driver: work(driver, f"intruder-{len(told)}")))

    monkeypatch.setattr(End, "put", put)
    with source.end() as left, target.end() as right:
        copier(left, right).run()
        assert digests(right) == digests(left)
    assert told == ["StoreMoving", "StoreMoving"]
    assert opened(target, lambda driver: work(driver, "guest")) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_holds_something_is_refused_and_the_source_left_alone(places: Places, kind: str) -> None:
    source, target = places.new("sqlite"), places.new(kind)
    filled(source)
    opened(target, lambda driver: work(driver, "resident"))
    with source.end() as left, target.end() as right:
        with pytest.raises(CopyRefused, match=r"not empty.*jobs"):
            copier(left, right).run()
        assert left.source_mark() is right.target_mark() is None
    assert opened(source, lambda driver: work(driver, "still-open")) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_that_the_target_does_not_let_begin_leaves_the_source_as_it_was(
    places: Places, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is there yet that a copy could go on with, so nobody's claims wait for it."""
    source, target = places.new(kind), places.new("sqlite")
    monkeypatch.setattr(module, "TRIES", 1)
    target.options["busy_timeout"] = 0.01
    with source.end() as left, target.end() as right:
        somebody = apsw.Connection(target.path)
        somebody.execute("begin immediate")
        with pytest.raises(StoreBusy):
            copier(left, right).run()
        somebody.close()
        assert left.source_mark() is right.target_mark() is None
        monkeypatch.setattr(End, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            copier(left, right).run()
        assert left.source_mark() is None
    assert opened(source, lambda driver: work(driver, "still-open")) is None


def test_a_copy_whose_target_has_begun_to_receive_is_gone_on_with(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer was lost: the target says what it is, so the source stays with it."""
    source, target = places.new("sqlite"), places.new("sqlite")
    filled(source)
    before = End.receive

    def receive(self: End, *args: Any) -> list[str]:
        before(self, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(End, "receive", receive)
    with source.end() as left, target.end() as right:
        with pytest.raises(KeyboardInterrupt):
            copier(left, right).run()
        mark = left.source_mark()
        assert mark is not None
        assert mark.phase == "draining"
        copier(left, right).run()
        assert digests(right) == digests(left)


def test_a_second_copier_is_refused_while_the_first_is_at_work(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = places.new("sqlite"), places.new("sqlite")
    filled(source)
    refused: list[str] = []
    before = End.put

    def put(self: End, *args: Any) -> None:
        before(self, *args)
        if not refused:
            for try_ in (lambda: copier(left, right, owner=None).run(), lambda: copier(left, right).give_up()):
                with pytest.raises(CopyRefused, match="another copier is at work") as error:
                    try_()
                refused.append(str(error.value))

    monkeypatch.setattr(End, "put", put)
    with source.end() as left, target.end() as right:
        copier(left, right, owner=None).run()
        assert len(refused) == 2
        assert digests(right) == digests(left)


@pytest.mark.parametrize("kind", KINDS)
def test_jobs_that_do_not_end_in_time_stop_the_copy_and_claims_go_on(places: Places, kind: str) -> None:
    source, target = places.new(kind), places.new("sqlite")

    async def body(driver: Driver) -> None:
        now = driver.clock.now()  # type: ignore[attr-defined]
        await driver.enqueue([NewJob(id="one", type="x"), NewJob(id="two", type="x")], now=now)
        assert len(await driver.claim(wish(), now=now)) == 1
        with source.end() as left, target.end() as right:
            with pytest.raises(CopyRefused, match="1 job is still running"):
                copier(left, right, abandon=False, wait=SECOND // 4).run()
            assert left.source_mark() is right.target_mark() is None
            assert right.filled() == []
        assert len(await driver.claim(wish(), now=now)) == 1

    opened(source, body)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_that_is_given_up_leaves_the_source_as_it_was_and_the_target_empty(
    places: Places, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = places.new("sqlite" if kind == "postgres" else "postgres"), places.new(kind)
    filled(source)
    with source.end() as left, target.end() as right:
        before = digests(left)
        monkeypatch.setattr(End, "last_numbers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            copier(left, right).run()
        monkeypatch.undo()
        assert right.counts()["jobs"] > 25
        assert opened(source, lambda driver: work(driver, "early")) == "StoreMoved"
        assert copier(left, right).give_up()
        assert right.filled() == []
        assert digests(left) == before
        assert opened(source, lambda driver: work(driver, "again")) is None
        assert not copier(left, right).give_up(), "once is enough"
        assert opened(target, lambda driver: work(driver, "own")) is None, "and so is the target, for whatever comes"


def test_triggers_of_an_application_outlive_a_copy_into_its_file_that_is_given_up(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = places.new("sqlite"), places.new("sqlite")
    filled(source)
    opened(target, lambda driver: driver.get([]))
    theirs = 'create trigger "their ""own"" one" after insert on notes begin select 1; end'
    file = apsw.Connection(target.path)
    file.execute(f"create table notes (x); {theirs}")
    with source.end() as left, target.end() as right:
        monkeypatch.setattr(End, "last_numbers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            copier(left, right).run()
        monkeypatch.undo()
        assert copier(left, right).give_up()
        assert right.filled() == []
    [(kept,)] = file.execute("select sql from sqlite_master where tbl_name = 'notes' and type = 'trigger'")
    assert kept == theirs.replace("create trigger", "CREATE TRIGGER")
    file.close()


@pytest.mark.parametrize("rule", ["", "deferrable initially deferred"])
def test_a_copy_into_a_database_whose_own_tables_refer_to_jobs_can_be_given_up(
    places: Places, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL does not truncate a table that a foreign key leads to, whether there are rows or not."""
    source, target = places.new("sqlite"), places.new("postgres")
    filled(source)
    opened(target, lambda driver: driver.get([]))
    schema = target.options["schema"]
    with psycopg.connect(target.url, autocommit=True) as theirs, source.end() as left, target.end() as right:
        theirs.execute(f"create table {schema}_orders (job text references {schema}.jobs (id) {rule})".encode())
        try:
            monkeypatch.setattr(End, "last_numbers", interrupted)
            with pytest.raises(KeyboardInterrupt):
                copier(left, right).run()
            monkeypatch.undo()
            assert copier(left, right).give_up()
            assert right.filled() == []
            assert set(right.last_numbers().values()) == {0}
            copier(left, right).run()
            assert digests(right) == digests(left)
            with pytest.raises(psycopg.IntegrityError):
                theirs.execute(f"delete from {schema}.jobs where state = 'queued'".encode())
        finally:
            theirs.execute(f"drop table {schema}_orders".encode())


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_after_a_copy_was_given_up_without_its_target_a_new_one_begins_from_nothing(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = places.new("sqlite"), places.new("sqlite")
    filled(source)
    with source.end() as left, target.end() as right:
        monkeypatch.setattr(End, "last_numbers", interrupted)
        with pytest.raises(KeyboardInterrupt):
            copier(left, right).run()
        monkeypatch.undo()
        assert copier(left, right).give_up(reachable=False)
        assert right.counts()["jobs"] > 25, "it could not be reached"
        assert opened(source, lambda driver: work(driver, "meanwhile")) is None
        copier(left, right).run()
        assert digests(right) == digests(left)


def test_once_handed_over_there_is_no_way_back(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = places.new("sqlite"), places.new("sqlite")
    filled(source)
    with source.end() as left, target.end() as right:
        monkeypatch.setattr(End, "open", interrupted)
        with pytest.raises(KeyboardInterrupt):
            copier(left, right).run()
        monkeypatch.undo()
        with pytest.raises(CopyRefused, match="handed over"):
            copier(left, right).give_up()
        copier(left, right).run()
        assert copier(left, right).run().moved_before, "and the same command again says so"
        with pytest.raises(CopyRefused, match="handed over"):
            copier(left, right).give_up()


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_is_asked_for_again_is_done_already(places: Places, kind: str) -> None:
    """A driver repeats a call whose reply was lost."""
    source, target = places.new(kind), places.new(kind)
    with source.end() as left, target.end() as right:
        draining = Mark(copy_id="c", phase="draining", other="there", other_id=right.store_id())
        moved = replace(draining, phase="moved")
        receiving = Mark(copy_id="c", phase="receiving", other="here", other_id=left.store_id())
        for _ in range(2):
            assert left.drain(draining)
        for _ in range(2):
            assert right.receive(None, receiving) == []
        for _ in range(2):
            assert left.move(draining, moved, abandon=False)
        for _ in range(2):
            right.put(TABLES[-1], [("usage_days", "7")], "c")
        assert right.counts()["meta"] == 1
        for _ in range(2):
            assert right.open(receiving, replace(receiving, phase="opened"))
        for _ in range(2):
            assert left.reopen(moved)


def test_a_claim_that_slipped_in_is_waited_for(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether nothing runs is looked at once more in the transaction after which nobody writes."""
    source, target = places.new("sqlite"), places.new("sqlite")

    async def body(driver: Driver) -> None:
        now = driver.clock.now()  # type: ignore[attr-defined]
        await driver.enqueue([NewJob(id="one", type="x")], now=now)
        [job] = await driver.claim(wish(), now=now)
        looks = iter([(0, 0), (0, 0)])
        monkeypatch.setattr(End, "leased", lambda self: next(looks))
        with source.end() as left, target.end() as right:
            with pytest.raises(StopIteration):
                copier(left, right, abandon=False).run()
            mark = left.source_mark()
            assert mark is not None
            assert mark.phase == "draining", "it saw that a job runs, and looked again"
        assert await driver.settle([Ack(handle=job.handle, token=job.token, at=now)], now=now) == ["applied"]

    opened(source, body)


def test_a_copier_that_slept_writes_nothing_into_what_is_no_longer_its_own(places: Places) -> None:
    source, target = places.new("sqlite"), places.new("sqlite")
    filled(source)
    with source.end() as left, target.end() as right:
        copier(left, right).run()
        table = TABLES[-1]
        for copy_id in ("another", str(getattr(right.target_mark(), "copy_id", ""))):
            with pytest.raises(CopyRefused, match="another copier"):
                right.put(table, [("usage_days", "0")], copy_id)
        assert digests(right) == digests(left)


@pytest.mark.parametrize("goes_on", [False, True], ids=["put", "go_on_after"])
def test_a_copier_that_stalls_in_the_middle_of_a_page_writes_nothing_into_what_was_given_up(
    places: Places, goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each statement of a page somebody else gives the copy up. Either that has to wait, or the page is refused."""
    monkeypatch.setattr(of_postgres, "FOR_A_TABLE", "50ms")
    place = places.new("postgres")
    keys = next(table for table in TABLES if table.name == "idempotency_keys")
    mark = Mark(copy_id="c", phase="receiving", other="elsewhere", other_id="e")
    given_up = 0
    with place.end() as target, ExitStack() as opened:
        driver = target._driver
        assert isinstance(driver, PostgresDriver)
        for stalls_after in range(9):
            assert target.receive(target.target_mark(), mark) == []
            link = Link(driver.place)
            opened.callback(link.give_up)
            link.execute(BEGIN)
            numbers = {**target.last_numbers(), "jobs": 7}
            op = (
                copying.go_on_after(HAND, numbers, "c") if goes_on else copying.put(HAND, keys, [("s", "k", 1, "job")], "c")
            )
            steps = 0
            try:
                statement = next(op)
                while True:
                    if steps == stalls_after:
                        with suppress(StoreBusy):
                            given_up += target.clear(mark)
                    steps += 1
                    statement = op.send(link.execute(statement))
            except (StopIteration, CopyRefused) as end:
                link.execute(ROLLBACK if isinstance(end, CopyRefused) else COMMIT)
            if target.target_mark() is None:
                assert (target.filled(), target.last_numbers()["jobs"]) == ([], 0), f"after {stalls_after} statements"
            else:
                assert target.clear(mark)
            if steps < stalls_after:
                break
    assert given_up, "nobody ever came in between"


def test_numbers_go_on_behind_the_highest_that_there_ever_was(places: Places) -> None:
    """Also where the job that had it is long gone."""
    source, target = places.new("sqlite"), places.new("sqlite")

    async def pruned(driver: Driver) -> None:
        now = driver.clock.now()  # type: ignore[attr-defined]
        await driver.enqueue([NewJob(id=f"job-{n}", type="x") for n in range(5)], now=now)
        await driver.alter([Cancel("job-4", "no")], now=now)
        assert await driver.alter([Delete("job-4")], now=now) == ["applied"]

    async def next_number(driver: Driver) -> int:
        now = driver.clock.now()  # type: ignore[attr-defined]
        await driver.enqueue([NewJob(id="next", type="x")], now=now)
        [job] = await driver.get(["next"])
        assert job is not None
        return job.seq

    opened(source, pruned)
    with source.end() as left, target.end() as right:
        copier(left, right).run()
    assert opened(target, next_number) == 6


@pytest.mark.parametrize("there", ["sqlite", "postgres"])
def test_rows_that_were_counted_on_past_what_a_hand_may_write_move_too(places: Places, there: str) -> None:
    """A store refuses a hand what leaves little room to go on. From the last that it takes the engine goes on."""
    source, target = places.new("sqlite"), places.new(there)

    async def counted_on(driver: Driver) -> tuple[Job, ...]:
        now = driver.clock.now()  # type: ignore[attr-defined]
        connection = apsw.Connection(source.url.removeprefix("sqlite:///"))
        for column, bound in (("executions", MOST_COUNTED), ("updated_at", LAST_INSTANT)):
            connection.execute(f"insert into jobs (type, {column}) values ('x', {bound})")
        connection.execute("insert into jobs (id, type, seq) values ('highest', 'x', 1 << 53)")
        connection.close()
        await driver.enqueue([NewJob(id="next", type="x")], now=now)
        await driver.alter([Cancel("highest", "no")], now=now)
        assert await driver.alter([Delete("highest")], now=now) == ["applied"]
        for job in await driver.claim(wish(9), now=now):
            back = Snooze(handle=job.handle, token=job.token, at=now, run_at=now)
            assert await driver.settle([back], now=now) == ["applied"]
        return await every(driver)

    async def every(driver: Driver) -> tuple[Job, ...]:
        return (await driver.find(JobQuery(limit=9))).jobs

    before = opened(source, counted_on)
    assert len(before) == 3
    with source.end() as left, target.end() as right:
        copier(left, right).run()
    assert opened(target, every) == before


def test_a_difference_keeps_the_target_closed(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = places.new("sqlite"), places.new("postgres")
    filled(source)
    before = End.put

    def put(self: End, table: Any, rows: Any, copy_id: str) -> None:
        if table.name == "jobs":
            rows = [(*row[:-1], b"other") for row in rows]
        before(self, table, rows, copy_id)

    monkeypatch.setattr(End, "put", put)
    with source.end() as left, target.end() as right:
        with pytest.raises(CopyRefused, match=r"differ: jobs \("):
            copier(left, right).run()
        assert opened(target, lambda driver: work(driver, "early")) == "StoreMoving"


def test_what_cannot_be_copied_is_said(places: Places) -> None:
    with pytest.raises(CopyRefused, match="ends with it"):
        open_end("memory://")
    with pytest.raises(CopyRefused, match="served") as refused:
        open_end("https://secret@host/")
    assert "secret" not in str(refused.value)
    source = places.new("sqlite")
    with source.end() as left, source.end() as right:
        assert copier(left, right).plan().step == "source and target are the same store"
        with pytest.raises(CopyRefused, match="same store"):
            Copy(left, right, Silent()).run()


@pytest.mark.parametrize("kind", KINDS)
def test_the_doctor_says_whether_a_store_takes_part_in_a_copy(places: Places, kind: str) -> None:
    """From its beginning until it is given up or done, at both ends."""
    source, target = places.new(kind), places.new(kind)

    def told(place: Place) -> list[tuple[str, bool]]:
        async def body(driver: Driver) -> list[tuple[str, bool]]:
            found = await driver.examine(now=driver.clock.now())  # type: ignore[attr-defined]
            return [(one.status, "over there" in one.text) for one in found if one.name == "copy"]

        found: list[tuple[str, bool]] = opened(place, body)
        return found

    with source.end() as left, target.end() as right:
        draining, moved, receiving = marks(left, right)
        assert told(source) == told(target) == []
        left.drain(draining)
        right.receive(None, receiving)
        assert (told(source), told(target)) == ([("warning", True)], [("warning", True)])
        left.move(draining, moved, abandon=False)
        assert told(source) == [("problem", True)]
        left.reopen(moved)
        right.clear(receiving)
        assert told(source) == told(target) == []


@pytest.mark.parametrize("kind", KINDS)
def test_who_led_a_store_before_it_was_copied_leads_it_no_more(places: Places, kind: str) -> None:
    """So that a duty which is under way deletes nothing that is being copied, or comes to be copied again."""
    source, target = places.new(kind), places.new(kind)

    async def body(driver: Driver) -> None:
        now = driver.clock.now()  # type: ignore[attr-defined]
        for worker in (WORKER, replace(WORKER, id="other")):
            await driver.beat(worker, now=now)
        led = await driver.lead("w", lease_for=HOUR, now=now)
        with source.end() as left, target.end() as right:
            draining, moved, _ = marks(left, right)
            assert left.drain(draining)
            assert await driver.maintain(RecountLimits(), epoch=led.epoch, now=now) == Done(0)
            assert left.move(draining, moved, abandon=False)
            assert left.reopen(moved)
        assert await driver.maintain(RecountLimits(), epoch=led.epoch, now=now) is None
        assert (await driver.lead("other", lease_for=HOUR, now=now)).worker_id == "other"

    opened(source, body)


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_was_emptied_is_guarded_like_any_other_when_it_receives_again(places: Places, kind: str) -> None:
    source, target = places.new("sqlite"), places.new(kind)
    with source.end() as left, target.end() as right:
        *_, receiving = marks(left, right)
        assert right.receive(None, receiving) == []
        assert right.clear(receiving)
        again = replace(receiving, copy_id="d")
        assert right.receive(None, again) == []
        assert opened(target, lambda driver: work(driver, "early")) == "StoreMoving"


@pytest.mark.parametrize("kind", KINDS)
def test_a_copier_whose_copy_was_given_up_writes_nothing_more(places: Places, kind: str) -> None:
    """Neither rows nor from which number on the target goes on, also when another copy to it has begun."""
    source, target = places.new("sqlite"), places.new(kind)
    with source.end() as left, target.end() as right:
        *_, receiving = marks(left, right)
        assert right.receive(None, replace(receiving, copy_id="d")) == []
        before = right.last_numbers()
        with pytest.raises(CopyRefused, match="taken over"):
            right.put(TABLES[-1], [("usage_days", "7")], "c")
        with pytest.raises(CopyRefused, match="taken over"):
            right.go_on_after(dict.fromkeys(before, 99), "c")
        assert right.counts()["meta"] == 0
        assert right.last_numbers() == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_that_opens_counts_the_permits_that_are_out(places: Places, kind: str) -> None:
    """Also where the source had them wrong: who waits on the target waits for no leader."""
    source, target = places.new("sqlite"), places.new(kind)
    limits = next(table for table in TABLES if table.name == "limits")
    row = {**dict.fromkeys(limits.names), "key": "key:gpu", "used": 7, "max_used": 7, "weight": 1.0}
    with source.end() as left, target.end() as right:
        *_, receiving = marks(left, right)
        assert right.receive(None, receiving) == []
        right.put(limits, [tuple(row[name] for name in limits.names)], "c")
        assert right.open(receiving, replace(receiving, phase="opened"))
    [there] = opened(target, lambda driver: driver.read(AllLimits()))
    assert (there.key, there.used) == ("key:gpu", 0)


def marks(left: End, right: End) -> tuple[Mark, Mark, Mark]:
    """Of a source that drains, of one that has moved, of a target that receives."""
    draining = Mark(copy_id="c", phase="draining", other="over there", other_id=right.store_id())
    receiving = Mark(copy_id="c", phase="receiving", other="over there", other_id=left.store_id())
    return draining, replace(draining, phase="moved"), receiving


class Silent:
    def phase(self, what: str, total: int = 0) -> None: ...
    def done(self, rows: int) -> None: ...
