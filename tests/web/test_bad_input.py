"""What nobody should send: the right status, a clear problem body, nothing changed, nothing leaked."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx2
import pytest

from web.conftest import Desk, on_a_desk
from windlass.errors import StoreError, StoreUnreachable
from windlass.web.bounds import Bounds
from windlass.web.reading import shape_of

JSON = {"Content-Type": "application/json"}
WISH = '{"type": "add", "payload": {"a": 1, "b": 2}}'


async def unchanged(desk: Desk) -> None:
    assert (await desk.web.state.site.admin().jobs()).jobs == ()


def problem(answer: httpx2.Response, status: int, kind: str) -> dict[str, Any]:
    body: dict[str, Any] = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, body["type"]) == (status, f"urn:windlass:{kind}"), body
    assert body["status"] == status
    assert body["correlation_id"] == answer.headers["x-request-id"]
    assert body["detail"]
    return body


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ("{", 400, "malformed-json"), ("", 400, "not-as-described"), ('"\\ud800"', 400, "malformed-json"),
        ("\xff", 400, "malformed-json"), ("[]", 422, "invalid-input"), ("null", 400, "not-as-described"),
        ('{"type": "add", "nonsense": 1}', 400, "not-as-described"), ('{"type": 7}', 400, "not-as-described"),
        ('{"type": "add", "priority": 1.5}', 400, "not-as-described"), ('{"type": "subtract"}', 422, "unknown-task"),
        ('{"type": "add", "payload": {"a": "x", "b": 2}}', 422, "invalid-input"),
        ('{"type": "add", "payload": {"a": 1, "b": 2, "c": 3}}', 422, "invalid-input"),
        ('{"type": "add", "payload": {"a": 1, "b": 2}, "delay": "soon"}', 422, "invalid-input"),
        ('{"type": "add", "payload": {"a": 1, "b": 2}, "run_at": "tomorrow"}', 400, "not-as-described"),
        ('{"type": "add", "payload": {"a": 1, "b": 2}, "queue": ""}', 422, "invalid-input"),
        (f"[{WISH}, {{}}]", 400, "not-as-described"),
        (f'[{WISH}, {{"type": "subtract"}}]', 422, "unknown-task"),
        ('{"type": "add", "payload": ' + '{"a":' * 70 + "1" + "}" * 70 + "}", 400, "too-deep"),
        ("[" * 100_000, 400, "too-deep"),
    ],
)  # fmt: skip
def test_a_body_that_is_not_right_changes_nothing(body: str, status: int, kind: str) -> None:
    async def main() -> None:
        desk = Desk()
        async with desk.app, desk.client() as client:
            answer = await client.post("/api/jobs", content=body.encode("latin-1"), headers=JSON)
            problem(answer, status, kind)
            await unchanged(desk)

    asyncio.run(main())


@on_a_desk
async def test_only_json_is_read_as_json(desk: Desk, client: httpx2.AsyncClient) -> None:
    """A form of another site can send any of these without being asked for leave."""
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "application/jsonx",
    ):
        problem(await client.post("/api/jobs", content=WISH, headers={"Content-Type": kind}), 415, "wrong-content-type")
    await unchanged(desk)
    spoken = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert (await client.post("/api/jobs", content=WISH, headers=spoken)).status_code == 201


@on_a_desk
async def test_a_body_that_is_too_large_is_not_read_to_its_end(desk: Desk, client: httpx2.AsyncClient) -> None:
    taken = 0

    async def endless() -> Any:
        nonlocal taken
        while taken < 10 << 20:
            taken += 1 << 16
            yield b" " * (1 << 16)

    problem(await client.post("/api/jobs", content=endless(), headers=JSON), 413, "too-large")
    assert taken <= (1 << 20) + (1 << 17)
    problem(await client.post("/api/jobs", content=b" " * (10 << 20), headers=JSON), 413, "too-large")
    await unchanged(desk)


@pytest.mark.parametrize("said", ["9" * 5_000, "9" * 19, "-1", "+1", "1.0", "1e3", " ", "", "\xb2", "0x10", "1_000"])
def test_a_content_length_that_is_none_is_refused(said: str) -> None:
    """A server refuses most of these before us; another one may not."""
    said_so = [(b"content-type", b"application/json"), (b"content-length", said.encode("latin-1"))]

    async def main() -> None:
        desk = Desk()
        async with desk.app:
            assert await raw(desk, "POST", "/api/jobs", said_so) == (400, "urn:windlass:malformed-request")
            await unchanged(desk)

    asyncio.run(main())


def test_a_query_string_that_is_no_text_is_refused() -> None:
    async def main() -> None:
        desk = Desk()
        async with desk.app:
            for path in ("/api/jobs", "/", "/nowhere"):
                assert await raw(desk, "GET", path, [], b"type=\xff") == (400, "urn:windlass:malformed-query")

    asyncio.run(main())


async def raw(
    desk: Desk, method: str, path: str, headers: list[tuple[bytes, bytes]], query: bytes = b""
) -> tuple[int, str]:
    """What no client of ours would let through; nor does every server."""
    answer: list[Any] = []
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": query, "root_path": "", "headers": [(b"host", b"localhost"), *headers],
        "client": ("127.0.0.1", 1), "server": ("localhost", 80),
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": WISH.encode(), "more_body": False}

    async def send(message: Any) -> None:
        answer.append(message)

    await desk.web(scope, receive, send)
    return answer[0]["status"], json.loads(answer[1]["body"])["type"]


@pytest.mark.parametrize(
    "body", ["[" + "{}," * 200_000 + "{}]", '{"type": "add", "payload": {"a": [' + "[]," * 100_000 + "1]}}"]
)
def test_a_body_of_very_many_objects_is_refused_before_they_are_made(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        desk = Desk()
        async with desk.app, desk.client() as client:
            monkeypatch.setattr("msgspec.json.decode", None)
            found = problem(await client.post("/api/jobs", content=body, headers=JSON), 413, "too-large")
            assert "100,000 objects and lists" in found["detail"]

    asyncio.run(main())


def test_a_worker_may_say_more_at_once_and_not_without_end() -> None:
    async def main() -> None:
        desk = Desk(bounds=Bounds(objects=10, work_objects=70))
        async with desk.app, desk.client() as client:
            ends = [{"id": "x", "token": "t", "outcome": "succeeded"}]
            answer = await client.post("/api/worker/v1/finish", json={"ended": ends * 20})
            assert answer.status_code == 200
            problem(await client.post("/api/worker/v1/finish", json={"ended": ends * 70}), 413, "too-large")

    asyncio.run(main())


@on_a_desk
async def test_a_body_that_does_not_arrive_is_not_waited_for(desk: Desk, client: httpx2.AsyncClient) -> None:
    async def never() -> Any:
        yield b"{"
        await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("windlass.web.reading.PATIENCE", 0.05)
        answer = await asyncio.wait_for(client.post("/api/jobs", content=never(), headers=JSON), 5)
    problem(answer, 408, "too-slow")
    await unchanged(desk)


@on_a_desk
async def test_moments_at_the_ends_of_the_calendar_are_moments_of_any_zone(desk: Desk, client: httpx2.AsyncClient) -> None:
    query = {"since": "0001-01-01T00:00:00+14:00", "until": "9999-12-31T23:59:59-14:00"}
    for path in ("/api/usage", "/api/usage.csv"):
        assert (await client.get(path, params=query)).status_code == 200


@on_a_desk
async def test_a_form_of_very_many_fields_is_refused(desk: Desk, client: httpx2.AsyncClient) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await client.post("/sign-in", content="a&" * 400_000, headers=form)
    assert answer.status_code == 413
    assert "1,000 fields" in answer.text


@on_a_desk
async def test_arguments_in_a_form_are_bounded_like_others(desk: Desk, client: httpx2.AsyncClient) -> None:
    from web.test_access import csrf_in

    csrf = csrf_in(await client.get("/jobs/new"))
    form = {"csrf": csrf, "type": "add", "params": "[" + "[]," * 100_000 + "1]"}
    answer = await client.post("/jobs/new", data=form)
    assert "100,000 objects and lists" in answer.text
    await unchanged(desk)


@on_a_desk
async def test_a_batch_is_bounded_and_stored_whole_or_not_at_all(desk: Desk, client: httpx2.AsyncClient) -> None:
    wish = {"type": "add", "payload": {"a": 1, "b": 2}}
    problem(await client.post("/api/jobs", json=[wish] * 1_001), 422, "invalid-input")
    await unchanged(desk)
    answer = await client.post("/api/jobs", json=[wish] * 1_000)
    assert (answer.status_code, len(answer.json())) == (201, 1_000)


@on_a_desk
async def test_pages_and_filters_are_clamped(desk: Desk, client: httpx2.AsyncClient) -> None:
    await desk.app.enqueue_many(desk.add.job(n, n) for n in range(210))
    assert len((await client.get("/api/jobs?limit=1000000")).json()["jobs"]) == 200
    for bad in (
        "limit=0",
        "limit=-1",
        "limit=x",
        "limit=1.5",
        "limt=5",
        "limit=5&limit=6",
        "created_from=0",
        "words=latin",
    ):
        problem(await client.get(f"/api/jobs?{bad}"), 400, "not-as-described")
    problem(await client.get("/api/jobs?limt=5"), 400, "not-as-described")
    assert "did you mean 'limit'" in (await client.get("/api/jobs?limt=5")).json()["detail"]
    problem(await client.get("/api/jobs?state=bogus"), 422, "invalid-input")
    problem(await client.get(f"/api/jobs?error={'x' * 1_001}"), 422, "invalid-input")
    problem(await client.get("/api/jobs?error=%00"), 422, "invalid-input")
    problem(await client.get(f"/api/jobs?{'tag=x&' * 2_000}"), 414, "too-long")
    problem(await client.get(f"/api/jobs/{'x' * 1_001}"), 414, "too-long")
    problem(await client.get("/api/jobs/%ff"), 400, "malformed-path")


@on_a_desk
async def test_a_cursor_belongs_to_its_own_listing(desk: Desk, client: httpx2.AsyncClient) -> None:
    await desk.app.enqueue_many(desk.add.job(n, n) for n in range(3))
    cursor = (await client.get("/api/jobs?limit=1&queue=default")).json()["cursor"]
    assert (await client.get(f"/api/jobs?limit=1&queue=default&cursor={cursor}")).status_code == 200
    for other in ("", "queue=default&type=add&", "queue=default&first=oldest&"):
        problem(await client.get(f"/api/jobs?{other}cursor={cursor}"), 422, "invalid-input")
    for nonsense in ("x", "%F0%9F%92%A9", "A" * 500, "gAAA"):
        problem(await client.get(f"/api/jobs?queue=default&cursor={nonsense}"), 422, "invalid-input")
    problem(await client.get(f"/api/dlq?queue=default&cursor={cursor}"), 422, "invalid-input")


@on_a_desk
async def test_names_with_slashes_and_hostile_ones_come_through(desk: Desk, client: httpx2.AsyncClient) -> None:
    for name in ("a/b", "../x", '"><script>alert(1)</script>', "ünï", "a b", "100%", "tick"):
        job = await desk.add.using(id=name, queue=name).enqueue(1, 2)
        path = httpx2.URL(f"http://localhost/api/jobs/{_quoted(name)}")
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["job"]["id"]) == (200, job.id), name
        assert (await client.post(f"/api/queues/{_quoted(name)}/pause")).json() == {
            "name": name, "paused": True, "changed": True,
        }  # fmt: skip
        assert (await client.get(f"/api/jobs/{_quoted(name)}/why")).status_code == 200


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="").replace(".", "%2E")


def test_what_goes_wrong_here_is_logged_and_not_told(caplog: pytest.LogCaptureFixture) -> None:
    secret = "postgresql://ada:c4n4ry@db/x: SELECT payload FROM jobs; /var/lib/store.db"  # noqa: S105
    errors: list[tuple[Exception, int, str]] = [
        (RuntimeError(secret), 500, "internal"), (StoreError(secret), 503, "store-unavailable"),
        (StoreUnreachable("here", secret), 503, "store-unavailable"), (KeyError(secret), 500, "internal"),
    ]  # fmt: skip

    async def main() -> None:
        desk = Desk()
        async with desk.app, desk.client() as client:
            for error, status, kind in errors:

                def failing(*_: object, error: Exception = error, **__: object) -> None:
                    raise error

                desk.web.state.site.admin = failing
                for path in ("/api/jobs", "/"):
                    answer = await client.get(path, headers={"X-Request-Id": "find-me"})
                    assert answer.status_code == status
                    assert "c4n4ry" not in answer.text
                    assert "SELECT" not in answer.text
                    assert "/var/lib" not in answer.text
                    assert "find-me" in answer.text
                problem(await client.get("/api/jobs"), status, kind)

    asyncio.run(main())
    assert "request find-me failed" in caplog.text
    assert "c4n4ry" in caplog.text, "whoever operates it finds out what it was"


@pytest.mark.parametrize(
    ("text", "depth"),
    [("1", 0), ("[]", 1), ('{"a": [1, {"b": []}]}', 4), ('"[[[["', 0), ('"\\"[[["', 0), ("[[[", 3), ('["]]", [', 2)],
)
def test_the_depth_of_json_is_that_of_its_brackets(text: str, depth: int) -> None:
    assert shape_of(text.encode(), depth, 100)[0] <= depth
    assert depth == 0 or shape_of(text.encode(), depth - 1, 100)[0] == depth


@pytest.mark.parametrize(
    ("text", "many"), [("[{}, {}, [{}]]", 5), ('["[[[[", "\\"[[[["]', 1), ('{"a": {"{": [1, 2, 3]}}', 3), ("1", 0)]
)
def test_objects_and_lists_of_json_are_counted(text: str, many: int) -> None:
    assert shape_of(text.encode(), 64, many)[1] <= many
    assert many == 0 or shape_of(text.encode(), 64, many - 1)[1] == many


@pytest.mark.parametrize(
    "text",
    ['"' + '\\"' * 200_000, '"\\' * 200_000, "[" * 400_000, '["' * 200_000, '"",' * 200_000, "]" * 400_000, "[]" * 200_000],
)
def test_the_depth_is_known_in_a_time_by_the_length_of_the_body(text: str) -> None:
    began = time.thread_time()
    shape_of(b"[]" * 100 + text.encode(), 10**9, 10**9)
    assert time.thread_time() - began < 2


def test_bounds_are_those_that_were_given() -> None:
    async def main() -> None:
        desk = Desk(bounds=Bounds(body=50, batch=1, page=2))
        async with desk.app, desk.client() as client:
            assert (await client.post("/api/jobs", content=WISH + " " * 6, headers=JSON)).status_code == 201
            assert (await client.post("/api/jobs", content=WISH + " " * 7, headers=JSON)).status_code == 413
            for _ in range(2):
                await desk.add.enqueue(1, 2)
            assert len((await client.get("/api/jobs")).json()["jobs"]) == 2

    asyncio.run(main())
