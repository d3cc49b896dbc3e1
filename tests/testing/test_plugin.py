"""The pytest plugin, in projects of its own: what its fixture gives, what it says, and that nobody else notices it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from windlass import loading
from windlass.drivers import sqlite
from windlass.testing import app

pytest_plugins = ["pytester"]
KEPT = (loading, sqlite, app)  # imported here, they are not imported anew by every project below
ASIDE = ("-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:schemathesis", "-p", "no:timeout", "-p", "no:xdist")

SHOP = """
from windlass import Retry, Windlass, fixed

app = Windlass("sqlite:///must-not-be-made.db")
sent = []

@app.task(retry=Retry(max_retries=3, backoff=fixed("1m")))
async def send(to, *, subject="Hello"):
    sent.append(to)
    if len(sent) == 1 and to == "nobody":
        raise ConnectionError("asleep")

@app.cron("0 * * * *")
@app.task
def tidy():
    sent.append("tidy")
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty one, beside whose tests there is a module with an app."""
    monkeypatch.syspath_prepend(str(pytester.path))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(shop=SHOP)
    return pytester


def run(project: pytest.Pytester, text: str, *options: str, beside: str | None = None) -> pytest.RunResult:
    """`beside`: which plugin for async tests is there."""
    project.makepyfile(test_it=text)
    without = [f"-pno:{name}" for name in ("anyio", "asyncio") if name != beside]
    return project.runpytest_inprocess("-q", "-W", "error", "--strict-markers", *ASIDE, *without, *options)


NAMED = "[pytest]\nwindlass_app = shop\n"


def test_a_test_has_the_app_of_the_project_on_a_store_of_its_own(project: pytest.Pytester) -> None:
    project.makeini(NAMED)
    result = run(
        project,
        """
        import datetime
        import shop
        import pytest

        before = shop.app.client
        NINE = datetime.datetime(2026, 1, 5, 9, tzinfo=datetime.UTC)  # minutes from now on are in no other hour

        @pytest.fixture(autouse=True)
        def empty():
            shop.sent.clear()

        def test_one(windlass):
            shop.send.enqueue_sync("ada")
            windlass.assert_enqueued(shop.send, "ada")
            assert shop.app.client.url == "memory://"
            assert windlass.drain_sync().succeeded == 1
            assert shop.sent == ["ada"]

        def test_two_begins_empty(windlass, windlass_app):
            assert windlass.jobs() == []
            assert windlass.app is windlass_app is shop.app

        def test_three_has_the_old_one_back():
            assert shop.app.client is before

        @pytest.mark.windlass(now=NINE)
        def test_time(windlass):
            shop.send.using(delay="2m").enqueue_sync("nobody")
            assert windlass.drain_sync().claimed == 0
            windlass.advance("2m")
            assert windlass.drain_sync().retried == 1
            windlass.advance("1m")
            assert windlass.drain_sync().succeeded == 1

        @pytest.mark.windlass(store="sqlite")
        class TestOnAFile:
            def test_marked(self, windlass):
                assert shop.app.client.url.startswith("sqlite:///")
                shop.send.enqueue_sync("ada")
                windlass.faults.crash("after_handler")
                windlass.drain_sync()
                assert shop.sent == ["ada", "ada"]

            @pytest.mark.windlass(store="memory", inline=True)
            def test_nearest(self, windlass):
                assert shop.app.client.url == "memory://"
                shop.send.enqueue_sync("ada")
                assert shop.sent == ["ada"]
        """,
    )
    result.assert_outcomes(passed=6)
    assert not (project.path / "must-not-be-made.db").exists()


def test_options_come_before_settings_and_markers_before_both(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nwindlass_app = nowhere\nwindlass_store = sqlite\n")
    text = """
        import pytest
        from datetime import UTC, datetime
        from windlass.clock import moment

        def test_app(windlass):
            import shop
            assert windlass.app is shop.app
            assert windlass.app.client.url.startswith(%r)

        @pytest.mark.windlass(store="memory", now=datetime(2030, 1, 1, tzinfo=UTC))
        def test_marked(windlass):
            assert windlass.app.client.url == "memory://"
            assert moment(windlass.clock.now()).year == 2030
    """
    run(project, text % "sqlite", "--windlass-app=shop:app").assert_outcomes(passed=2)
    run(project, text % "memory", "--windlass-app=shop.py", "--windlass-store=memory").assert_outcomes(passed=2)


def test_without_an_app_there_is_a_new_one_and_a_fixture_can_name_another(project: pytest.Pytester) -> None:
    run(
        project,
        """
        import pytest
        from windlass import Windlass

        def test_a_new_one(windlass, windlass_app):
            @windlass_app.task
            def double(n: int) -> int:
                return 2 * n

            job = double.enqueue_sync(21)
            windlass.drain_sync()
            assert job.result_sync(5) == 42

        def test_another_new_one(windlass):
            assert windlass.app.tasks == {}

        class TestOfTheirOwn:
            @pytest.fixture
            def windlass_app(self):
                import shop
                return shop.app

            def test_theirs(self, windlass):
                assert "send" in windlass.app.tasks

        @pytest.mark.windlass(app="shop")
        def test_marked(windlass):
            assert "send" in windlass.app.tasks
        """,
    ).assert_outcomes(passed=4)


@pytest.mark.parametrize("beside", [None, "anyio", "asyncio", "asyncio in auto mode"])
def test_async_tests_run_whatever_runs_async_tests_there(project: pytest.Pytester, beside: str | None) -> None:
    kind = (beside or "").partition(" ")[0]
    project.makeini(f"{NAMED}asyncio_default_fixture_loop_scope = function\n" if kind == "asyncio" else NAMED)
    result = run(
        project,
        f"""
        import asyncio
        import pytest
        import shop

        async def play(windlass):
            assert asyncio.get_running_loop()
            await shop.send.enqueue("ada")
            windlass.faults.crash("after_handler")
            assert (await windlass.drain()).succeeded == 1
            windlass.assert_enqueued(shop.send, to="ada")

        @pytest.mark.parametrize("n", [1])
        async def test_unmarked(windlass, n):
            await play(windlass)

        class TestMethods:
            async def test_of_a_class(self, windlass):
                await play(windlass)

        async def test_that_fails(windlass):
            await shop.send.enqueue("bob")
            windlass.assert_enqueued(shop.send, "ada")

        def test_blocking(windlass):
            asyncio.run(play(windlass))

        if {kind!r}:
            @pytest.mark.{kind or "none"}
            async def test_marked(windlass):
                await play(windlass)
        """,
        "-k", "not trio", *(["-o", "asyncio_mode=auto"] if " " in (beside or "") else []), beside=kind,
    )  # fmt: skip
    result.assert_outcomes(passed=4 if beside else 3, failed=1)
    result.stdout.fnmatch_lines([">*windlass.assert_enqueued(shop.send, *ada*)", "*send('bob'): to is 'bob', not 'ada'"])


def test_async_tests_that_do_not_ask_for_it_are_left_alone(project: pytest.Pytester) -> None:
    result = run(project, "async def test_other(): pass")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*async def functions are not natively supported*"])


def test_schedules_and_retries_run_as_time_passes(project: pytest.Pytester) -> None:
    project.makeini(NAMED)
    run(
        project,
        """
        import shop

        def test_schedules(windlass):
            shop.sent.clear()
            windlass.run_for_sync("3h")
            assert shop.sent == ["tidy"] * 3

        def test_a_jump(windlass):
            shop.sent.clear()
            windlass.advance("61m")
            windlass.drain_sync()
            assert shop.sent == ["tidy"]

        async def test_both(windlass):
            shop.sent.clear()
            await shop.send.enqueue("nobody")
            stats = await windlass.run_for("59s")
            assert (stats.retried, stats.succeeded - shop.sent.count("tidy")) == (1, 0)
            await windlass.run_for("1s")
            assert shop.sent.count("nobody") == 2
        """,
    ).assert_outcomes(passed=3)


def test_what_goes_wrong_is_told_in_words(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nwindlass_app = shp\n")
    result = run(
        project,
        """
        import pytest
        import shop

        def test_no_app(windlass): pass

        @pytest.mark.windlass(app="shop", store="redis")
        def test_no_store(windlass): pass

        @pytest.mark.windlass(app="shop", sqlite=True)
        def test_no_option(windlass): pass

        @pytest.mark.windlass(app="shop")
        def test_instead(windlass):
            shop.send.enqueue_sync("bob", subject="Yo")
            windlass.assert_enqueued(shop.send, "ada")

        @pytest.mark.windlass(app=shop.app)
        def test_missed(windlass):
            shop.send.enqueue_sync("bob")
            windlass.faults.crash("after_handler", task=shop.send)

        @pytest.mark.windlass(app=shop.app)
        def test_failed_before(windlass):
            windlass.faults.crash("after_handler")
            assert 1 == 2
        """,
    )
    result.assert_outcomes(errors=3, failed=3)
    result.stdout.fnmatch_lines(
        [
            "windlass_app = shp: *there is no module 'shp' (did you mean 'shop'?)*",
            "windlass_store = redis: must be memory or sqlite",
            "@pytest.mark.windlass takes app=, store=, now=, inline=, raise_errors=",
            ">*windlass.assert_enqueued(shop.send, *ada*)",
            "*send('ada') was not enqueued; these were, nearest first:*",
            "*send('bob', subject='Yo'): to is 'bob', not 'ada'*",
            "*these faults never happened, so nothing was tested:*",
            "*faults.crash('after_handler', task=send): no such job came to a good end of its own*",
            "*assert 1 == 2*",
        ]
    )


def test_who_does_not_use_it_pays_nothing(tmp_path: Path) -> None:
    """In a process of its own, because here everything is imported already."""
    (tmp_path / "test_of_others.py").write_text(
        "import sys\n"
        "def test_nothing_of_it_is_imported():\n"
        "    ours = {name for name in sys.modules if name.split('.')[0] in ('windlass', 'msgspec', 'apsw', 'cyclopts')}\n"
        "    assert ours == {'windlass', 'windlass.testing', 'windlass.testing.plugin'}\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", *ASIDE, "-p", "no:hypothesispytest", "-p", "no:asyncio"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
