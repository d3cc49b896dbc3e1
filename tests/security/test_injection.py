"""No text that anybody can say is ever part of a statement: by HTTP, by `Admin`, by options and filters, by commands.

Each text is put everywhere where a text may stand, one place at a time, on both kinds of SQL. It is stored and found as it
is, or refused as bad input; the store has the shape that it had, and what was in it.
"""

from __future__ import annotations

import asyncio
import inspect as signatures
import re
import typing
from collections.abc import AsyncIterator, Iterator
from pathlib import Path as File
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
import pytest
from cyclopts import App

from cli.conftest import Cli, cli  # noqa: F401
from security.hostile import ALL_AT_ONCE, HOSTILE, USUAL, example, places, put
from security.stores import Store, check_canary, set_canary
from windlass.admin import Admin, Filter
from windlass.cli.commands import commands
from windlass.errors import StoreError, WindlassError
from windlass.options import JobOptions
from windlass.web.access import LOCAL, Access
from windlass.web.answers import Events
from windlass.web.app import web_app
from windlass.web.bounds import Bounds
from windlass.web.route import Route
from windlass.web.routes import ROUTES

OTHERS = [pytest.param(text, marks=pytest.mark.full) for text in HOSTILE[1:]]


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: File) -> Store:
    if request.param == "sqlite":
        return Store(f"sqlite:///{tmp_path}/jobs.db")
    dsn, schema = request.getfixturevalue("empty_store")
    return Store(dsn, schema)


# ------------------------------------------------------------------------------------------------------------------ HTTP


def requests(route: Route, text: str) -> Iterator[tuple[str, dict[str, str], Any]]:
    """A path, a query and a body, with the text at one place of them."""
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    query, body = (None if kind is None else msgspec.inspect.type_info(kind) for kind in (route.query, route.body))
    usual = None if body is None else example(body)

    def path(hostile: str | None = None) -> str:
        whole = route.path
        for name in names:
            said = text if name == hostile else str(USUAL.get(name, "x"))
            whole = whole.replace(f"{{{name}}}", quote(said, safe=""))
        return whole

    for name in names:
        yield path(name), {}, usual
    for way, _ in () if query is None else places(query):
        yield path(), {str(way[0]): text}, usual
    for way, whole in () if body is None else places(body):
        yield path(), {}, put(whole, way, text)


@pytest.mark.parametrize("text", [ALL_AT_ONCE, *OTHERS])
def test_no_text_in_a_request_becomes_part_of_a_statement(store: Store, text: str) -> None:
    async def story() -> None:
        app = store.app(webhook_networks="127.0.0.0/8", webhook_timeout="1s")
        bounds = Bounds(rate=1e9, burst=10**9, wait=0.01)
        web = web_app(app, access=Access(anonymous=LOCAL), bounds=bounds)
        async with app, httpx2.AsyncClient(transport=httpx2.ASGITransport(app=web), base_url="http://localhost") as client:
            await set_canary(app)
            shape, tried, reached = await asyncio.to_thread(store.shape), 0, 0
            for route in ROUTES:
                if Events in (route.answer, *typing.get_args(route.answer)) or (route.is_page and route.unsafe):
                    continue  # the one does not end, the other says in a form what the API can say
                for path, query, body in requests(route, text):
                    said = {} if body is None else {"json": body}
                    answer = await client.request(route.method, path, params=query, **said)
                    assert answer.status_code < 500, (route, query, body, answer.text)
                    tried, reached = tried + 1, reached + (answer.status_code != 400)
            await check_canary(app)
            assert await asyncio.to_thread(store.shape) == shape
            assert (tried > 400, reached > 0.95 * tried) == (True, True), (tried, reached)

    asyncio.run(story())


# ----------------------------------------------------------------------------------------------------------------- Admin


def named(field: str, value: Any) -> Filter:
    return Filter(**{field: value})


OWN: dict[str, dict[str, Any]] = {  # what a call needs beside the text, where its type alone does not tell
    "acquire": {"wait": 0},
    "hold": {"wait": 0},
    "bulk": {"dry_run": True},
    "enqueue": {"payload": {"a": 1, "b": 2}, "options": {}},
    "move": {"to": "top"},
    "move_beside": {"side": "before"},
    "set_priority": {"priority": 1},
    "replay": {"limit": 1},
    "purge": {"limit": 1},
    "create_token": {"scopes": ["read"]},
    "create_webhook": {"events": ["job.dead"]},
    "pause_limit": {"paused": True},
}


def calls(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every call of `Admin` that takes a text, with the text at one place of it."""
    for name, method in signatures.getmembers(Admin, signatures.isfunction):
        if name.startswith("_"):
            continue
        parameters = [*signatures.signature(method).parameters.values()][1:]
        needed = {one.name for one in parameters if one.default is signatures.Parameter.empty}
        for one in parameters:
            said = {"wanted": Filter(), **OWN.get(name, {})}
            usual = {key: said.get(key, USUAL.get(key, "x")) for key in needed}
            kind = str(one.annotation)
            if "Filter" in kind:
                for field in Filter.__struct_fields__:
                    given: Any = (text,) if field in ("ids", "queues") else text
                    if Filter.__annotations__[field] in ("str | None", "tuple[str, ...]"):
                        yield name, {**usual, one.name: named(field, given)}
            elif re.search(r"(Sequence|Iterable|tuple)\[str", kind):
                yield name, {**usual, one.name: [text]}
            elif re.search(r"\b(str|Duration)\b", kind) and "Mapping" not in kind:
                yield name, {**usual, one.name: text}


@pytest.mark.parametrize("text", [ALL_AT_ONCE, *OTHERS])
def test_no_text_given_to_admin_becomes_part_of_a_statement(store: Store, text: str) -> None:
    async def story() -> None:
        app = store.app(webhook_networks="127.0.0.0/8", webhook_timeout="1s")
        async with app:
            await set_canary(app)
            shape, tried, answered = await asyncio.to_thread(store.shape), set[str](), 0
            for name, said in calls(text):
                tried.add(name)
                try:
                    answer = getattr(app.admin, name)(**said)
                    if isinstance(answer, AsyncIterator):
                        await anext(answer, None)
                    elif signatures.isawaitable(answer):
                        await answer
                    answered += 1
                except WindlassError as error:
                    assert not isinstance(error, StoreError), (name, said)
            await check_canary(app)
            assert await asyncio.to_thread(store.shape) == shape
            assert (len(tried) >= 50, answered > 100) == (True, True), (len(tried), answered)

    asyncio.run(story())


# --------------------------------------------------------------------------------------------------- options and filters


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_said_of_a_job_is_stored_as_it_is_and_finds_that_job_alone(store: Store, text: str) -> None:
    async def story() -> None:
        async with store.app() as app:
            await set_canary(app)
            add = app.tasks["add"]
            said: dict[str, Any] = {
                "id": text,
                "queue": text,
                "org_id": text,
                "tags": (text,),
                "headers": {text: text},
                "dedupe": text,
                "idempotency_key": text,
                "limits": (f"key:{text}",),
            }
            unsaid = {name for name, hint in JobOptions.__annotations__.items() if "str" in str(hint)} - said.keys()
            assert unsaid == set(), "a new option"
            await add.using(**said).enqueue(1, 2)
            for name in ("id", "queue", "org_id"):
                other: Any = {name: f"{text}, another"}
                await add.using(**other).enqueue(3, 4)
            [job] = await app.client.driver.get([text])
            assert job is not None
            assert (job.id, job.queue, job.org_id, job.tags, job.headers) == (text, text, text, (text,), {text: text})
            assert text in str(job.dedupe_key)
            assert job.limit_keys == (f"key:{text}",)
            wishes = ({"ids": (text,)}, {"queue": text}, {"queues": (text,)}, {"org_id": text}, {"tag": text})
            for wish in wishes:
                found = await app.admin.jobs(Filter(**wish))
                assert [one.id for one in found.jobs] == [text], wish
                assert (await app.admin.matching(Filter(**wish))).jobs == 1
            for name in ("type", "group_id", "schedule", "worker_id", "error"):
                assert (await app.admin.jobs(named(name, text))).jobs == (), name
            await app.admin.pause(text)
            assert {one.name for one in (await app.admin.overview()).queues if one.paused_at is not None} == {text}
            await app.admin.cancel(text, text)
            [job] = await app.client.driver.get([text])
            assert job is not None
            assert (job.state, job.last_error) == ("cancelled", text)
            await check_canary(app)

    asyncio.run(story())


# ------------------------------------------------------------------------------------------------------ the command line

# They run programs of this machine, or until they are stopped; what they say to the store is said by others too.
NOT_RUN = {
    ("worker",),
    ("serve",),
    ("dev",),
    ("demo",),
    ("bench",),
    ("top",),
    ("tick",),
    ("init",),
    ("completion",),
    ("version",),
}
BESIDE = ("--store", "--app", "--words")  # a place, a program, a choice: not said to the store


def options(app: App, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    below = {name: command for name, command in app.resolved_commands().items() if not name.startswith("-")}
    for name, command in below.items():
        yield from options(command, (*path, name))
    if app.default_command is not None and not below and path not in NOT_RUN:
        yield path, [one for one in app.assemble_argument_collection() if one.names != ("*",)]


def lines(text: str, *, every: bool) -> Iterator[list[str]]:
    """Every command with the text in one of its words. Not `every`: an option that many commands have, at one of them."""
    tried = set[str]()
    for path, arguments in options(commands()):
        named = [one for one in arguments if one.names[0].startswith("--")]
        placed = [one for one in arguments if one not in named]
        usual = [str(typing.get_args(one.hint)[0]) if typing.get_args(one.hint) else "x" for one in placed if one.required]
        usual += [word for one in named if one.required for word in (one.names[0], _word(one))]
        sure = ["--yes"] if any(one.names[0] == "--yes" for one in named) else []
        for place, one in enumerate(placed):
            if "str" in str(one.hint) and "Literal" not in str(one.hint):
                yield [*path, *usual[:place], text, *usual[place + 1 :], *sure]
        for one in named:
            if "str" in str(one.hint) and "Literal" not in str(one.hint) and one.names[0] not in (*BESIDE, *tried):
                tried.update(() if every else one.names[:1])
                yield [*path, *usual, *sure, f"{one.names[0]}={text}"]


def _word(one: Any) -> str:
    known = {"--scope": "read", "--url": "http://127.0.0.1:9/", "--event": "job.dead", "--cron": "0 9 * * *", "--for": "1m"}
    return known.get(one.names[0], "1" if "int" in str(one.hint) or "float" in str(one.hint) else "x")


def on_the_command_line(cli: Cli, store: Store, text: str, *, every: bool = True) -> None:  # noqa: F811
    async def with_canary(then: Any) -> None:
        async with store.app() as app:
            await then(app)

    asyncio.run(with_canary(set_canary))
    shape, tried = store.shape(), 0
    for words in lines(text, every=every):
        done = cli(*words, "--json")
        tried += 1
        assert done.code in (0, 1, 2, 3), (words, done)
        assert "Error:" not in done.out, (words, done)
    assert tried > (150 if every else 60), tried
    asyncio.run(with_canary(check_canary))
    assert store.shape() == shape


@pytest.mark.parametrize("text", [ALL_AT_ONCE, *OTHERS])
def test_no_word_of_a_command_becomes_part_of_a_statement(
    cli: Cli,  # noqa: F811
    tmp_path: File,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
) -> None:
    store = Store(f"sqlite:///{tmp_path}/windlass.db")
    monkeypatch.setenv("WINDLASS_URL", store.url)
    on_the_command_line(cli, store, text, every=text != ALL_AT_ONCE)


@pytest.mark.full
def test_no_word_of_a_command_becomes_part_of_a_statement_of_postgresql(
    cli: Cli,  # noqa: F811
    empty_store: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store(*empty_store)
    monkeypatch.setenv("WINDLASS_URL", store.url)
    monkeypatch.setenv("WINDLASS_SCHEMA", str(store.schema))
    on_the_command_line(cli, store, ALL_AT_ONCE)
