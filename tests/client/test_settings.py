"""Settings and their sources, an app's life: opened on first use, closed once, alive after a fork."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from windlass import Retry, Windlass
from windlass.clock import SECOND
from windlass.config import COUNTS, Settings, SettingsOptions, settings_from
from windlass.core.admission import PAYLOAD_LIMIT
from windlass.drivers.memory import MemoryDriver
from windlass.errors import AppClosed, InvalidInput, shown

from .conftest import Place

# ----------------------------------------------------------------------------------------------------------- settings


def test_what_is_given_wins_over_the_environment_over_the_defaults() -> None:
    env = {"WINDLASS_LEASE": "10s", "WINDLASS_THREADS": "3", "WINDLASS_ON_DUPLICATE": "raise", "WINDLASS_KEEP_DEAD": "2d"}
    settings = settings_from({"threads": 5, "poll": 0.25}, env)
    assert (settings.lease, settings.threads, settings.poll) == (10 * SECOND, 5, SECOND // 4)
    assert (settings.on_duplicate, settings.keep_dead, settings.grace) == ("raise", 2 * 86_400 * SECOND, 30 * SECOND)


def test_an_app_reads_its_settings_and_its_store_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WINDLASS_URL", f"sqlite:///{tmp_path / 'env.db'}")
    monkeypatch.setenv("WINDLASS_TIMEOUT", "7s")
    app = Windlass()

    @app.task
    async def work() -> None: ...

    async def main() -> None:
        async with app:
            job = await work.enqueue()
            assert (await job.fetch()).timeout_ns == 7 * 10**9

    asyncio.run(main())
    assert (tmp_path / "env.db").is_file()


def test_without_a_url_it_is_a_file_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WINDLASS_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    app = Windlass()
    assert list(tmp_path.iterdir()) == []  # nothing is opened before the first use

    @app.task
    def work() -> None: ...

    work.enqueue_sync()
    asyncio.run(app.close())
    assert (tmp_path / "windlass.db").is_file()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("THREADS", "many", "WINDLASS_THREADS: must be a whole number"),
        ("THREADS", "0", "WINDLASS_THREADS: must be a whole number from 1 to 1,000, got 0"),
        ("THREADS", "nan", "WINDLASS_THREADS: must be a whole number from 1 to 1,000, got 'nan'"),
        ("CONNECTIONS", "1000000000", "WINDLASS_CONNECTIONS: must be a whole number from 1 to 1,000, got 1000000000"),
        ("POLL", "0s", "WINDLASS_POLL: must be from 0.001 s to 31,536,000 s, got '0s'"),
        ("STORE_TIMEOUT", "30d", "WINDLASS_STORE_TIMEOUT: must be from 0.1 s to 86,400 s, got '30d'"),
        ("LEASE", "soon", "WINDLASS_LEASE: 'soon' is not a duration"),
        ("SQLITE", "duckdb", "WINDLASS_SQLITE: must be one of apsw, stdlib"),
    ],
)
def test_a_bad_variable_is_named(name: str, text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        settings_from({}, {f"WINDLASS_{name}": text})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"leese": "1s"}, "is not a setting .did you mean 'lease'"),
        ({"lease": -1}, "must not be negative"),
        ({"lease": "50ms"}, "at least 100 ms"),
        ({"leader_lease": "50ms"}, "leader_lease: must be at least 100 ms"),
        ({"worker_timeout": "20s"}, "worker_timeout: .20 s. must not be shorter than leader_lease .30 s.; shorten both"),
        ({"leader_lease": "61s"}, "worker_timeout: .60 s. must not be shorter than leader_lease .61 s."),
        ({"concurrency": True}, "concurrency: must be a whole number from 1 to 10,000, got True"),
        ({"concurrency": "20"}, "concurrency: must be a whole number from 1 to 10,000, got '20'"),
        ({"concurrency": float("inf")}, "concurrency: must be a whole number from 1 to 10,000, got inf"),
        ({"lease": True}, "lease: True is not a duration"),
        ({"lease": float("nan")}, "lease: nan is not a duration"),
        ({"lease": float("inf")}, "lease: inf is longer than a thousand years"),
        ({"poll": 0}, "poll: must be from 0.001 s to 31,536,000 s, got 0"),
        ({"timeout": "300000d"}, "timeout: must be from 0 s to 3,153,600,000 s, got '300000d'"),
        ({"webhook_timeout": 0}, "webhook_timeout: must be from 0.1 s to 86,400 s, got 0"),
        ({"concurrency": 2.0}, "must be a whole number"),
        ({"retry": 3}, "must be a windlass.Retry"),
        ({"payload_limit": 2 << 20}, "from 2 to 1,048,576, got 2097152; no store takes more, store a reference"),
        ({"durability": "maybe"}, "must be one of full, relaxed"),
        ({"webhook_concurrency": 10_001}, "webhook_concurrency: must be a whole number from 0 to 10,000, got 10001"),
        ({"threads": -(10**5000)}, "threads: must be a whole number from 1 to 1,000, got a number of 16610 bits"),
    ],
)
def test_a_bad_setting_is_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Windlass("memory://", **given)


def test_the_largest_payload_is_that_of_the_stores() -> None:
    assert Settings().payload_limit == PAYLOAD_LIMIT


@pytest.mark.parametrize("name", [name for name in COUNTS if name != "processes"])
def test_a_count_that_nobody_meant_is_refused_wherever_it_is_given(name: str) -> None:
    least, most = COUNTS[name]
    for value in (least, most):
        assert getattr(settings_from({name: value}, {}), name) == value
        assert getattr(settings_from({}, {f"WINDLASS_{name.upper()}": str(value)}), name) == value
    for value in (least - 1, most + 1, 10**30):
        says = f"must be a whole number from {least:,} to {most:,}, got {shown(value)}"
        with pytest.raises(InvalidInput, match=f"^{name}: {says}"):
            settings_from({name: value}, {})
        with pytest.raises(InvalidInput, match=f"^WINDLASS_{name.upper()}: {says}"):
            settings_from({}, {f"WINDLASS_{name.upper()}": str(value)})


@pytest.mark.parametrize("name", ["concurrency", "threads", "children"])
@pytest.mark.parametrize("value", [0, -1, 10**9, True, 2.0, float("nan"), "8"])
def test_a_worker_is_not_larger_than_the_settings_may_say(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^{name}: must be a whole number from 1 to "):
        Windlass("memory://").worker(**{name: value})


def test_every_setting_can_be_given_and_is_checked() -> None:
    assert {field.name for field in fields(Settings)} == set(get_type_hints(SettingsOptions))
    for field in fields(Settings):
        with pytest.raises(InvalidInput):
            settings_from({field.name: object()}, {})
    assert settings_from({"retry": Retry(max_retries=1)}, {}).retry.executions == 2


# ------------------------------------------------------------------------------------------------------ open and closed


def test_a_closed_app_says_so(place: Place) -> None:
    app = place.app()

    @app.task
    async def work() -> None: ...

    async def main() -> None:
        job = await work.enqueue()
        await app.close()
        await app.close()
        for call in (
            work.enqueue, job.fetch, job.result, job.cancel, job.retry, job.delete, job.runs, job.run_now, app.tick,
            app.repository.claim, lambda: app.enqueue_many([work.job()]), lambda: app.repository.enqueue("work"),
        ):  # fmt: skip
            with pytest.raises(AppClosed, match="open it again"):
                await call()

    asyncio.run(main())
    with pytest.raises(AppClosed):
        work.enqueue_sync()
    with pytest.raises(AppClosed):
        app.enqueue_many_sync([])


def test_an_app_that_was_never_used_can_be_closed(place: Place) -> None:
    app = place.app()
    asyncio.run(app.close())
    assert not place.file.exists()


def test_a_given_driver_is_used_and_closed() -> None:
    driver = MemoryDriver()
    app = Windlass(driver=driver)

    @app.task
    async def work() -> None: ...

    async def main() -> None:
        async with app:
            job = await work.enqueue()
            assert await driver.get([job.id]) != [None]

    asyncio.run(main())
    with pytest.raises(AppClosed):
        work.enqueue_sync()


def test_jobs_survive_the_app(file_place: Place) -> None:
    async def main() -> None:
        first = file_place.app()

        @first.task(name="work")
        async def asks(n: int) -> int:
            raise AssertionError

        job = await asks.enqueue(20)
        await first.close()
        second = file_place.app()

        @second.task(name="work")
        async def answers(n: int) -> int:
            return n + 1

        assert (await second.tick()).succeeded == 1
        assert await second.job(job.id).result(1) == 21

    asyncio.run(main())


FORKS = """
import asyncio, os, sys
from windlass import Windlass
app = Windlass(f"sqlite:///{sys.argv[1]}", sqlite=sys.argv[2])

@app.task
async def work(n: int) -> int:
    return n

work.enqueue_sync(0)
child = os.fork()
if child == 0:
    work.enqueue_sync(1)
    async def in_the_child():
        await work.enqueue(2)
        await app.tick(limit=1)
        await app.close()
    asyncio.run(in_the_child())
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
work.enqueue_sync(3)

async def in_the_parent():
    stats = await app.tick()
    await app.close()
    print(status, stats.succeeded)

asyncio.run(in_the_parent())
"""


@pytest.mark.parametrize("library", ["apsw", "stdlib"])
def test_a_forked_child_may_enqueue_and_run_jobs_and_the_parent_goes_on(tmp_path: Path, library: str) -> None:
    command = [sys.executable, "-c", FORKS, str(tmp_path / "jobs.db"), library]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("0 3", 0), done.stderr


def test_a_closed_app_can_be_opened_again(place: Place) -> None:
    """A test client that runs an application's lifespan twice, for instance."""
    app = place.app()
    app.queue("kept")

    @app.task(queue="kept")
    async def hello() -> str:
        return "hello"

    async def lifespan() -> str:
        async with app.running():
            return await (await hello.enqueue()).result(timeout=5)

    async def once() -> str:
        try:
            return await lifespan()
        finally:
            await app.close()

    assert [asyncio.run(once()), asyncio.run(once())] == ["hello", "hello"]
    with pytest.raises(AppClosed):
        hello.enqueue_sync()
    app.open()
    assert hello.enqueue_sync().id
    asyncio.run(app.close())


def test_a_result_can_be_awaited_by_blocking_code(place: Place) -> None:
    app = place.app()

    @app.task
    async def hello() -> str:
        return "hello"

    job = hello.enqueue_sync()
    with pytest.raises(TimeoutError, match=r"has not ended within 0\.05 s; (see why: windlass jobs why|.*drain)"):
        job.result_sync(timeout=0.05)
    asyncio.run(app.worker().run(drain=True))
    assert job.result_sync(timeout=5) == "hello"
    asyncio.run(app.close())
