"""The pytest plugin: a test that asks for the fixture `windlass` has an app on a store of its own, on a frozen clock.

    def test_a_sign_up_sends_a_letter(windlass):
        sign_up("ada@example.com")
        windlass.assert_enqueued(send_letter, "ada@example.com")
        windlass.drain_sync()

pytest loads this in every project in whose environment Windlass is, so it imports nothing of it before a test asks.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.testing.app import Testing

FIXTURE: Final = "windlass"
STORES: Final = ("memory", "sqlite")
MARKED: Final = ("app", "store", "now", "inline", "raise_errors")
MARKER: Final = (
    "windlass(app=None, store=None, now=None, inline=False, raise_errors=False): how the fixture of that name is made: "
    "which app, on 'memory' or 'sqlite', when, and whether an enqueue runs its job at once"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("windlass", "jobs of Windlass")
    group.addoption("--windlass-app", metavar="MODULE:NAME", help="the app that the fixture windlass tests")
    group.addoption("--windlass-store", choices=STORES, help="where its jobs are during a test; else in memory")
    parser.addini("windlass_app", "the app that the fixture windlass tests, as module:name or a path to a .py file")
    parser.addini("windlass_store", "where its jobs are during a test: memory or sqlite", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def windlass_app(request: pytest.FixtureRequest) -> Windlass:
    """The app under test: the one that `@pytest.mark.windlass(app=...)`, `--windlass-app` or the setting `windlass_app`
    names, else a new one, on which a test declares its tasks. Override this fixture to choose another."""
    from windlass.app import Windlass
    from windlass.errors import WindlassError
    from windlass.loading import load_app

    named = _marked(request).get("app") or _said(request.config, "windlass_app")
    if isinstance(named, Windlass):
        return named
    if not named:
        return Windlass("memory://")
    try:
        return load_app(str(named))
    except WindlassError as error:
        wrong = str(error)
    pytest.fail(f"windlass_app = {named}: {wrong}", pytrace=False)


@pytest.fixture
def windlass(request: pytest.FixtureRequest, windlass_app: Windlass) -> Iterator[Testing]:
    """The app under test, as a `windlass.testing.Testing`. Afterwards the app has its own store back, unchanged."""
    from windlass.testing.app import testing

    options = {name: value for name, value in _marked(request).items() if name != "app"}
    store: Any = options.pop("store", None) or _said(request.config, "windlass_store") or "memory"
    if store not in STORES:
        pytest.fail(f"windlass_store = {store}: must be memory or sqlite", pytrace=False)
    with testing(windlass_app, store=store, **options) as test:
        try:
            yield test
        finally:
            test.faults.clear()  # they were looked at when the test's own code had ended


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test whose armed faults never happened, unless it has failed already."""
    answer = yield
    test: Any = getattr(item, "funcargs", {}).get(FIXTURE)
    missed = test.faults.missed() if hasattr(test, "faults") else None
    if missed is not None:
        pytest.fail(missed, pytrace=False)
    return answer


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test that uses the fixture, even if no plugin for async tests does."""
    if FIXTURE not in pyfuncitem.fixturenames or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def _said(config: pytest.Config, name: str) -> str | None:
    """An option of the command line, or else of the settings."""
    typed: str | None = config.getoption(name)
    written: str | None = config.getini(name)
    return typed or written


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The arguments of the markers; the nearest one wins."""
    said: dict[str, Any] = {}
    for marker in request.node.iter_markers("windlass"):
        if marker.args or not set(marker.kwargs) <= set(MARKED):
            pytest.fail(f"@pytest.mark.windlass takes {', '.join(f'{name}=' for name in MARKED)}", pytrace=False)
        said = {**marker.kwargs, **said}
    return said
