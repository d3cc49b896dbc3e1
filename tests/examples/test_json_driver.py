"""The example driver keeps every promise, survives its file, and stays short enough to read."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from windlass.core.alterations import PutGroup, PutLimit, PutQueue, SetPaused
from windlass.core.changes import AddEvent
from windlass.core.duties import Done, RollUpUsage, SampleQueues
from windlass.core.queries import AllEvents, AllGroups, AllLimits, AllQueues, AllWorkers, Query, SamplesSince, UsageSince
from windlass.drivers.protocol import Driver
from windlass.drivers.values import JobQuery, Page
from windlass.errors import DriverClosed, DriverForked, StoreError, StoreFull, StoreUnavailable
from windlass.testing.conformance import DriverConformance
from windlass.testing.conformance.trial import LEASE, MINUTE, Trial
from windlass.testing.model import differential
from windlass.types import Job, Run

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.append(str(EXAMPLES))

from json_driver import JsonDriver  # noqa: E402


@pytest.mark.full
class TestJson(DriverConformance):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path
        self.numbers = itertools.count()

    def make_driver(self) -> Driver:
        return JsonDriver(self.directory / f"{next(self.numbers)}.json", sync=False)


_models = tempfile.TemporaryDirectory(prefix="windlass-json-")
_numbers = itertools.count()


def fresh() -> Driver:
    return JsonDriver(Path(_models.name) / f"{next(_numbers)}.json", sync=False)


TestJsonAgainstMemory = differential(fresh).TestCase
TestJsonAgainstMemory.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


class Everything:
    """All that a driver shows, for comparing one moment with another."""

    def __init__(self, page: Page, runs: list[list[Run]], rows: list[list[object]]) -> None:
        self.jobs: tuple[Job, ...] = page.jobs
        self.runs, self.rows = runs, rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Everything) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


async def everything(driver: Driver) -> Everything:
    page = await driver.find(JobQuery(superseded=True, limit=1_000))
    runs = [await driver.runs(job.id) for job in page.jobs]
    kinds: list[Query[Any]] = [AllQueues(), AllGroups(), AllLimits(), AllEvents(), AllWorkers()]
    kinds += [UsageSince(), SamplesSince()]
    return Everything(page, runs, [await driver.read(kind) for kind in kinds])


async def busy(driver: Driver) -> Trial:
    """A store with rows of every kind: waiting, leased, ended, pruned and parked jobs, keys, shared rows, odd bytes."""
    t = Trial(driver)
    for change in (PutQueue("q", settings="{}"), SetPaused("q", True), PutLimit("k", 1), PutGroup("g", total=3)):
        assert await t.alter(change) == "applied"
    await t.ack(await t.running(idempotency_scope="s", idempotency_key="pruned"), result=b"\x00\xff")
    await t.prune(succeeded=0)
    event = AddEvent("job.dead", "x", None, "{}")
    await t.fail(await t.running(group_id="g", payload=b"\xff\xfe", headers={"ü": "✓"}), riders=(event,))
    await t.running(limit_keys=("k",), idempotency_scope="s", idempotency_key="held", dedupe_key="d")
    for number in range(6):
        await t.enqueue(priority=number % 3, run_at=t.now + MINUTE if number % 2 else None)
    await t.enqueue(limit_keys=("k",), priority=9)
    assert await t.claim(limit=1)
    await t.beat("w")
    await t.lead("w")
    later = t.now + 2 * MINUTE
    await driver.maintain(RollUpUsage(until=later), epoch=None, now=later)
    await driver.maintain(SampleQueues(keep=MINUTE), epoch=None, now=later)
    return t


def test_everything_is_there_after_closing_and_opening_again(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "jobs.json"
        t = await busy(JsonDriver(path))
        before = await everything(t.driver)
        await t.driver.close()
        t.driver = JsonDriver(path)
        assert await everything(t.driver) == before
        assert all(before.rows)
        assert await t.maintain(RollUpUsage(until=t.now + MINUTE), epoch=1) == Done(0), "who leads, and what was counted"
        assert (await t.answer(idempotency_scope="s", idempotency_key="pruned")).existed
        assert (await t.answer(idempotency_scope="s", idempotency_key="held")).existed
        assert (await t.answer(dedupe_key="d")).existed
        queued = [job for job in before.jobs if job.state in ("queued", "running")]
        t.clock.advance(MINUTE + LEASE)
        parked = {job.id for job in queued if "k" in job.limit_keys}
        expected = [j.id for j in sorted(queued, key=lambda j: (-j.priority, j.position)) if j.id not in parked]
        assert [job.id for job in await t.claim() if job.id not in parked] == expected
        await t.driver.close()

    asyncio.run(story())


def test_an_old_handle_never_meets_a_new_job(tmp_path: Path) -> None:
    """The number of a pruned job is not given out again, also not by the next process."""

    async def story() -> None:
        t = Trial(JsonDriver(tmp_path / "jobs.json"))
        old = await t.running()
        await t.ack(old)
        assert await t.prune(succeeded=0, limit=1) == 1
        await t.driver.close()
        t.driver = JsonDriver(tmp_path / "jobs.json")
        fresh = await t.running()
        assert fresh.handle != old.handle
        assert await t.ack(old) == "not_inflight"
        await t.driver.close()

    asyncio.run(story())


def failing(call: Callable[..., Any], code: int, on: int = 1) -> Callable[..., Any]:
    """`call`, but its n-th use raises."""
    uses = itertools.count(1)

    def fail(*args: Any) -> Any:
        if next(uses) >= on:
            raise OSError(code, os.strerror(code))
        return call(*args)

    return fail


@pytest.mark.parametrize(("name", "code"), [("fsync", errno.ENOSPC), ("replace", errno.ENOSPC), ("fsync", errno.EIO)])
def test_a_change_that_the_disk_refuses_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    """Memory and file stay as they were, nothing is left beside the file, and the same call works once there is room."""

    async def story() -> None:
        path = tmp_path / "jobs.json"
        t = await busy(JsonDriver(path))
        before, text = await everything(t.driver), path.read_bytes()
        assert await t.driver.wait(timeout=0.05) is True, "what happened before the first look is not missed"
        waiter = asyncio.ensure_future(t.driver.wait(timeout=0.05))
        await asyncio.sleep(0)
        with monkeypatch.context() as patch:
            patch.setattr(os, name, failing(getattr(os, name), code))
            calls: list[Callable[[], Any]] = [
                lambda: t.enqueue(id="late", dedupe_key="new", idempotency_scope="s", idempotency_key="new"),
                lambda: t.claim(),
                lambda: t.driver.expire(now=t.now + LEASE, limit=10),
                lambda: t.alter(PutLimit("other", 1)),
            ]
            for call in calls:
                with pytest.raises(StoreFull if code == errno.ENOSPC else StoreError):
                    await call()
                assert await everything(t.driver) == before
                assert path.read_bytes() == text
        assert await waiter is False, "a change that did not happen wakes nobody"
        assert sorted(os.listdir(tmp_path)) == ["jobs.json", "jobs.json.lock"]
        answer = await t.answer(id="late", dedupe_key="new", idempotency_scope="s", idempotency_key="new")
        assert (answer.id, answer.existed) == ("late", False)
        after = await everything(t.driver)
        await t.driver.close()
        again = JsonDriver(path)
        assert await everything(again) == after
        await again.close()

    asyncio.run(story())


def test_a_change_in_doubt_is_neither_acknowledged_nor_built_upon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the rename cannot be made durable nobody knows which file survives: the driver stops, opening again tells."""

    async def story() -> None:
        path = tmp_path / "jobs.json"
        t = await busy(JsonDriver(path))
        before = await everything(t.driver)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing(os.fsync, errno.EIO, on=2))
            with pytest.raises(StoreError):
                await t.driver.enqueue([t.new(id="a"), t.new(id="b")], now=t.now)
        with pytest.raises(DriverClosed):
            await t.driver.get(["a"])
        await t.driver.close()
        again = JsonDriver(path)
        found = await again.get(["a", "b"])
        assert (None in found) == (found == [None, None]), "half a batch"
        rest = [job for job in (await everything(again)).jobs if job.id not in ("a", "b")]
        assert rest == list(before.jobs)
        await again.close()

    asyncio.run(story())


def test_a_second_opener_is_refused_until_the_first_has_closed(tmp_path: Path) -> None:
    """In the same process and in another one, with words that say what to do."""
    path = tmp_path / "jobs.json"
    script = (
        f"import sys; sys.path.append({str(EXAMPLES)!r}); from json_driver import JsonDriver; JsonDriver({str(path)!r})"
    )
    first = JsonDriver(path)
    with pytest.raises(StoreUnavailable, match="another driver has it open"):
        JsonDriver(path)
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert other.returncode == 1
    assert "another driver has it open" in other.stderr
    asyncio.run(first.close())
    asyncio.run(JsonDriver(path).close())


def test_a_file_that_is_not_a_store_is_left_alone(tmp_path: Path) -> None:
    """Empty, cut short or of a later version: an error, the lock is given back, and not a byte is changed."""
    path = tmp_path / "jobs.json"
    driver = JsonDriver(path)
    asyncio.run(busy(driver))
    asyncio.run(driver.close())
    whole = path.read_bytes()
    for text in (b"", b"{}", whole[:-10], whole.replace(b'"version":1', b'"version":2')):
        path.write_bytes(text)
        with pytest.raises(StoreUnavailable, match="not a store"):
            JsonDriver(path)
        assert path.read_bytes() == text
    path.write_bytes(whole)
    asyncio.run(JsonDriver(path).close())
    with pytest.raises(StoreUnavailable):
        JsonDriver(tmp_path / "nowhere" / "jobs.json")


def test_nothing_is_written_and_nobody_woken_when_nothing_changed(tmp_path: Path) -> None:
    async def story() -> None:
        t = await busy(JsonDriver(tmp_path / "jobs.json"))
        await t.claim()
        inode = os.stat(tmp_path / "jobs.json").st_ino
        assert await t.driver.wait(timeout=0.05) is True, "what happened before the first look is not missed"
        waiter = asyncio.ensure_future(t.driver.wait(timeout=0.05))
        await asyncio.sleep(0)
        assert await t.claim() == []
        assert await waiter is False
        assert os.stat(tmp_path / "jobs.json").st_ino == inode
        await t.driver.close()

    asyncio.run(story())


def test_a_claim_that_was_sent_before_the_close_is_answered(tmp_path: Path) -> None:
    async def story() -> None:
        t = await busy(JsonDriver(tmp_path / "jobs.json"))
        sent = asyncio.ensure_future(t.claim(limit=1))
        await asyncio.sleep(0)
        await t.driver.close()
        assert len(await sent) == 1

    asyncio.run(story())


def test_a_forked_child_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It inherits the lock and the rows as they were, so its changes would undo the parent's."""
    driver = JsonDriver(tmp_path / "jobs.json")
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(DriverForked):
            asyncio.run(driver.get(["x"]))
    asyncio.run(driver.close())


def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    driver = JsonDriver(tmp_path / "jobs.json")
    asyncio.run(busy(driver))
    asyncio.run(driver.close())
    assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == [0o600, 0o600]


def test_the_example_fits_on_three_screens() -> None:
    assert len((EXAMPLES / "json_driver.py").read_text().splitlines()) <= 160
