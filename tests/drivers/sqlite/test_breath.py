"""A process that writes much lets others in. Time moves when a test says so; the other writer is a real connection."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from windlass.drivers.sqlite import SqliteDriver, breath, place
from windlass.drivers.sqlite.breath import ALONE, AMONG_OTHERS, LATELY, Breath
from windlass.drivers.sqlite.lane import Step
from windlass.drivers.sqlite.library import BETWEEN_LOOKS, Library
from windlass.drivers.sqlite.place import BREATH, Turns
from windlass.types import NewJob

NOW = 10**15


class Moment:
    def __init__(self) -> None:
        self.now = 10**9
        self.slept: list[float] = []

    def since_boot(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += round(seconds * 1_000_000)


@pytest.fixture
def moment(monkeypatch: pytest.MonkeyPatch) -> Moment:
    moment = Moment()
    for module in (place, breath):
        monkeypatch.setattr(module, "since_boot", moment.since_boot)
    monkeypatch.setattr(breath, "time", moment)
    return moment


def write(turns: Turns, moment: Moment, lasting: int, *, times: int = 1, pause: int = BREATH - 1) -> None:
    for _ in range(times):
        assert turns.take(1)
        moment.now += lasting
        turns.give()
        moment.now += pause


def test_a_breath_is_long_enough_to_be_noticed() -> None:
    assert BREATH / 1_000_000 > BETWEEN_LOOKS


def test_a_stretch_lasts_until_a_pause_that_others_notice(moment: Moment) -> None:
    turns = Turns()
    write(turns, moment, 1_000, times=5)
    assert turns.stretch() == 5 * 1_000 + 4 * (BREATH - 1)
    write(turns, moment, 1_000, pause=BREATH)
    write(turns, moment, 1_000)
    assert turns.stretch() == 1_000


def opened(path: Path, library: Library = "apsw") -> SqliteDriver:
    return SqliteDriver(path / "jobs.db", sqlite=library)


def lane_of(driver: SqliteDriver) -> tuple[Breath, Turns]:
    return driver._writer._breath, driver._place.turns


def test_a_lane_alone_with_its_file_seldom_takes_a_breath(tmp_path: Path, moment: Moment) -> None:
    driver = opened(tmp_path)
    lane, turns = lane_of(driver)
    write(turns, moment, AMONG_OTHERS)
    assert not lane.due()
    moment.now += LATELY
    write(turns, moment, ALONE - BREATH)
    assert not lane.due()
    write(turns, moment, BREATH)
    assert lane.due()
    asyncio.run(driver.close())


@pytest.mark.parametrize("library", ["apsw", "stdlib"])
def test_while_somebody_else_writes_to_the_file_breaths_are_many(tmp_path: Path, moment: Moment, library: Library) -> None:
    driver, other = opened(tmp_path, library), opened(tmp_path, library)
    lane, turns = lane_of(driver)
    write(turns, moment, AMONG_OTHERS)
    lane.due()
    moment.now += LATELY
    asyncio.run(other.enqueue([NewJob(id="other", type="work")], now=NOW))
    write(turns, moment, AMONG_OTHERS - BREATH)
    assert not lane.due()
    write(turns, moment, BREATH)
    assert lane.due()
    moment.now += LATELY
    write(turns, moment, AMONG_OTHERS)
    assert not lane.due(), "that was long ago"
    asyncio.run(other.close())
    asyncio.run(driver.close())


def test_a_lane_pauses_after_a_long_stretch_and_not_before(tmp_path: Path, moment: Moment) -> None:
    driver, lasting = opened(tmp_path), [0]

    def slow(step: Step) -> None:
        moment.now += lasting[0] if step == "before_commit" else 0

    driver._writer.on_step = slow
    for lasting[0] in (1, ALONE):
        asyncio.run(driver.enqueue([NewJob(id=f"{lasting[0]}-{n}", type="work") for n in range(100)], now=NOW))
    driver._writer.on_step = None
    asyncio.run(driver.close())  # the lane's thread has ended: what it does after an answer is done
    assert moment.slept == [BREATH / 1_000_000]


def test_who_reads_takes_no_breath_however_long_somebody_wrote_before(tmp_path: Path, moment: Moment) -> None:
    driver = opened(tmp_path)
    write(lane_of(driver)[1], moment, ALONE)
    for _ in range(3):
        assert asyncio.run(driver.get(["nobody"])) == [None]
    driver._reader.close()  # its thread has ended: what it does after an answer is done
    slept = list(moment.slept)
    asyncio.run(driver.close())
    assert slept == []
