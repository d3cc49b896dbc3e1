"""Streams of events, health and metrics."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from telemetry.asking import numbers, read
from web.conftest import Desk, on_a_desk
from windlass.admin import counting, sampled
from windlass.clock import SECOND
from windlass.core.sampling import MINUTE, bucket
from windlass.errors import StoreUnreachable
from windlass.records import QueueSample
from windlass.telemetry.families import FAMILIES
from windlass.web import pulse, streaming
from windlass.web.bounds import Bounds


class Stream:
    """A request whose answer is read while it is being written; `httpx2` would wait for its end."""

    def __init__(self, desk: Desk, path: str, token: str = "") -> None:
        self._desk = desk
        self._said = [(b"authorization", f"Bearer {token}".encode())] if token else []
        self._path, _, self._query = path.partition("?")
        self._gone = asyncio.Event()
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.status = 0
        self.headers: dict[str, str] = {}

    async def run(self) -> None:
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
            "path": self._path, "raw_path": self._path.encode(), "query_string": self._query.encode(),
            "headers": [(b"host", b"localhost"), *self._said], "client": ("127.0.0.1", 1), "server": ("localhost", 80),
            "root_path": "",
        }  # fmt: skip
        await self._desk.web(scope, self._receive, self._send)
        self._pieces.put_nowait(None)

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        elif message.get("body"):
            self._pieces.put_nowait(message["body"])

    async def next(self) -> tuple[str, Any] | None:
        """The next event; None at the end. Comments are passed over."""
        while True:
            piece = await asyncio.wait_for(self._pieces.get(), 10)
            if piece is None:
                return None
            found = re.fullmatch(rb"event: (\S+)\ndata: (.*)\n\n", piece)
            if found is not None:
                return found[1].decode(), json.loads(found[2])

    def leave(self) -> None:
        self._gone.set()


@asynccontextmanager
async def reading(desk: Desk, path: str, token: str = "") -> AsyncIterator[Stream]:
    stream = Stream(desk, path, token)
    running = asyncio.create_task(stream.run())
    try:
        yield stream
    finally:
        stream.leave()
        await asyncio.wait_for(running, 10)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "SPACING", 0.01)


@on_a_desk
async def test_queues_are_told_when_they_have_changed(desk: Desk, client: httpx2.AsyncClient) -> None:
    await desk.add.enqueue(1, 2)
    async with reading(desk, "/api/events") as one, reading(desk, "/api/events") as other:
        for stream in (one, other):
            assert await stream.next() == ("queues", _counts({"queued": 1}))
        await desk.add.enqueue(3, 4)
        for stream in (one, other):
            assert await stream.next() == ("queues", _counts({"queued": 2}))
        assert one.headers["content-type"].startswith("text/event-stream")
        assert desk.web.state.site.streams == {(None, "local"): 2}
    assert desk.web.state.site.streams == {(None, "local"): 0}


class _counts:  # noqa: N801  # reads as the value that it stands for
    """Equal to a picture with these jobs in the queue."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, dict) and other["queues"][0]["counts"] == self._counts

    def __repr__(self) -> str:
        return f"a picture with {self._counts}"


@on_a_desk
async def test_a_job_is_followed_to_its_end(desk: Desk, client: httpx2.AsyncClient) -> None:
    job = await desk.add.enqueue(1, 2)
    async with reading(desk, f"/api/events?job={job.id}") as stream:
        first = await stream.next()
        assert first is not None
        assert (first[0], first[1]["label"]) == ("job", "queued")
        await desk.app.tick()
        seen = first[1]["label"]
        while (told := await stream.next()) is not None and told[0] == "job":
            seen = told[1]["label"]
        assert (seen, told) == ("succeeded", ("end", {}))
        assert await stream.next() is None


@pytest.mark.parametrize("path", ["/api/events", "/api/events?job={job}", "/live/jobs/{job}"])
def test_a_token_that_is_revoked_ends_the_streams_that_it_opened(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "WELCOME", 0.0)
    monkeypatch.setattr(streaming, "ALIVE", 0.02)

    async def main() -> None:
        desk = Desk()
        async with desk.app:
            job, admin = await desk.add.enqueue(1, 2), desk.web.state.site.admin()
            _, secret = await admin.create_token("wall", ["read"])
            async with reading(desk, path.format(job=job.id), secret) as stream:
                assert await stream.next() is not None
                await admin.revoke_token("wall")
                while (told := await stream.next()) is not None and told[0] != "problem":
                    pass
                assert told is not None, "it ends with the reason"
                assert (told[1]["status"], told[1]["type"]) == (401, "urn:windlass:unauthenticated")
                assert await stream.next() is None

    asyncio.run(main())


@on_a_desk
async def test_what_a_job_logs_is_followed(desk: Desk, client: httpx2.AsyncClient) -> None:
    job = await desk.add.enqueue(1, 2)
    await desk.app.tick()
    async with reading(desk, f"/api/events?log={job.id}") as stream:
        assert await stream.next() == ("end", {})


@on_a_desk
async def test_a_stream_of_what_is_not_there_is_a_problem(desk: Desk, client: httpx2.AsyncClient) -> None:
    for query in ("job=nobody", "log=nobody"):
        answer = await client.get(f"/api/events?{query}")
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:windlass:job-not-found")


def test_streams_are_bounded_and_a_place_is_free_again_when_one_is_left() -> None:
    async def main() -> None:
        desk = Desk(bounds=Bounds(streams_each=1))
        async with desk.app, desk.client() as client:
            async with reading(desk, "/api/events") as stream:
                await stream.next()
                answer = await client.get("/api/events")
                assert (answer.status_code, answer.json()["type"]) == (429, "urn:windlass:too-many-streams")
                assert answer.headers["retry-after"] == "10"
            async with reading(desk, "/api/events") as stream:
                assert await stream.next() is not None

    asyncio.run(main())


@on_a_desk
async def test_a_reader_that_takes_nothing_gives_its_place_back(desk: Desk, client: httpx2.AsyncClient) -> None:
    class Stalled(Stream):
        async def _send(self, message: Any) -> None:
            await asyncio.Event().wait()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(streaming, "STALLED", 0.05)
        await asyncio.wait_for(Stalled(desk, "/api/events").run(), 5)
    assert desk.web.state.site.streams == {(None, "local"): 0}


@on_a_desk
async def test_whoever_asks_for_the_head_of_a_stream_does_not_wait_for_its_end(
    desk: Desk, client: httpx2.AsyncClient
) -> None:
    answer = await asyncio.wait_for(client.head("/api/events"), 5)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert not desk.web.state.site.streams


def test_the_streams_of_a_token_are_not_those_of_its_namesake_in_another_org() -> None:
    async def main() -> None:
        desk = Desk(bounds=Bounds(streams_each=1))
        async with desk.app:
            job = await desk.add.using(org_id="acme").enqueue(1, 2)
            made = desk.web.state.site.admin()
            _, acme = await made.create_token("ci", ("read",), org_id="acme")
            _, evil = await made.create_token("ci", ("read",), org_id="evil")
            other = await desk.add.using(org_id="evil").enqueue(1, 2)
            async with reading(desk, f"/api/events?job={other.id}", evil) as first:
                assert await first.next() is not None
                async with reading(desk, f"/api/events?job={job.id}", acme) as second:
                    assert await second.next() is not None
                    assert second.status == 200

    asyncio.run(main())


@on_a_desk
async def test_a_stream_ends_with_the_problem_when_the_store_goes_away(desk: Desk, client: httpx2.AsyncClient) -> None:
    async with reading(desk, "/api/events") as stream:
        await stream.next()

        async def away() -> None:
            raise StoreUnreachable("ada:c4n4ry@db", "refused")

        desk.web.state.site.pulse._admin.overview = away
        told = await stream.next()
        assert told is not None
        assert (told[0], told[1]["status"]) == ("problem", 503)
        assert "c4n4ry" not in str(told)
        assert await stream.next() is None


@on_a_desk
async def test_a_silent_stream_says_that_it_is_still_there(desk: Desk, client: httpx2.AsyncClient) -> None:
    usual = streaming.ALIVE
    streaming.ALIVE = 0.02  # type: ignore[misc]
    try:
        async with reading(desk, "/api/events") as stream:
            await stream.next()
            assert await asyncio.wait_for(stream._pieces.get(), 5) == b": still here\n\n"
    finally:
        streaming.ALIVE = usual  # type: ignore[misc]


# ----------------------------------------------------------------------------------------------------- health and metrics


@on_a_desk
async def test_a_process_lives_without_its_store_and_is_ready_only_with_it(desk: Desk, client: httpx2.AsyncClient) -> None:
    for path in ("/livez", "/readyz"):
        assert (await client.get(path)).text == "ok\n"
    await desk.app.close()
    assert (await client.get("/livez")).text == "ok\n"
    answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:windlass:store-unavailable")


@on_a_desk
async def test_metrics_are_in_the_format_of_prometheus(desk: Desk, client: httpx2.AsyncClient) -> None:
    hostile = 'a"b\\c'
    await desk.add.using(queue=hostile).enqueue(1, 2)
    await client.post("/api/queues/a%22b%5Cc/pause")
    await client.get("/api/jobs/nobody")
    answer = await client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.text.splitlines()
    assert 'windlass_jobs{queue="a\\"b\\\\c",label="queued"} 1' in lines
    assert 'windlass_queue_paused{queue="a\\"b\\\\c"} 1' in lines
    assert 'windlass_http_answers_total{method="GET",route="/api/jobs/{job_id}",status="404"} 1' in lines
    assert "windlass_workers 0" in lines
    known: set[str] = set()
    label = r'[a-z_]+="(?:[^"\\\n]|\\.)*"'
    for line in lines:
        if line.startswith("# TYPE "):
            known.add(line.split()[2])
        elif not line.startswith("#"):
            sample = re.fullmatch(rf"([a-z_]+)(\{{{label}(,{label})*\}})? \S+", line)
            assert sample is not None, line
            assert sample[1] in known, line


@on_a_desk
async def test_of_too_many_queues_the_busiest_are_told_of(desk: Desk, client: httpx2.AsyncClient) -> None:
    desk.app.queue("b")
    for name in "accdcd":
        await desk.add.using(queue=name).enqueue(1, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampled, "QUEUES", 2)
        found = read((await client.get("/metrics")).text)
    assert [*numbers(found["windlass_queue_paused"])] == [("c",), ("d",)]
    assert numbers(found["windlass_queues_left_out"]) == {(): 2}


@on_a_desk
async def test_metrics_of_queues_are_read_from_the_last_sample(desk: Desk, client: httpx2.AsyncClient) -> None:
    """As far as there is one, and somebody lives who takes the next. What came since then is not counted for a scrape."""
    await desk.add.enqueue(1, 2)
    driver = desk.app.client.driver
    async with desk.app.running():
        while not (await client.get("/api/workers")).json()["leader"]:  # noqa: ASYNC110 - nothing tells a loop of it
            await asyncio.sleep(0.01)
        now = desk.app.client.now()
        sample = QueueSample(
            queue="mail", minute=now - now % MINUTE - MINUTE, depth={"queued": 7, "dead": 2}, oldest=90 * SECOND,
            finished={"completed": 3, "failed": 1}, waits={bucket(SECOND): 4}, runs={bucket(SECOND // 10): 4},
        )  # fmt: skip
        driver._tables.samples = {(sample.minute, "mail"): sample}  # type: ignore[attr-defined]
        found = read((await client.get("/metrics")).text)
    assert numbers(found["windlass_jobs"]) == {("mail", "dead"): 2, ("mail", "queued"): 7}
    assert numbers(found["windlass_queue_oldest_seconds"]) == {("mail",): 90}
    assert numbers(found["windlass_queue_ended"]) == {("mail", "completed"): 3, ("mail", "failed"): 1}
    assert 1 <= numbers(found["windlass_queue_wait_seconds"])["mail", "0.95"] <= 2
    assert 0.1 <= numbers(found["windlass_queue_run_seconds"])["mail", "0.5"] <= 0.2
    assert numbers(found["windlass_workers"]) == numbers(found["windlass_has_leader"]) == {(): 1}
    assert numbers(found["windlass_sample_age_seconds"])[()] < 60


@on_a_desk
async def test_what_the_table_says_of_a_server_is_exposed_and_nothing_else(desk: Desk, client: httpx2.AsyncClient) -> None:
    lines = (await client.get("/metrics")).text.splitlines()
    told = [tuple(line.split(" ")[2:4]) for line in lines if line.startswith("# TYPE")]
    assert sorted(told) == sorted((family.name, family.kind) for family in FAMILIES if family.where == "serve")


@on_a_desk
async def test_nobody_makes_the_store_count_more_often_than_it_may(desk: Desk, client: httpx2.AsyncClient) -> None:
    looks, driver = 0, desk.app.client.driver
    count = driver.count

    async def counted(**asked: Any) -> Any:
        nonlocal looks
        looks += 1
        return await count(**asked)

    driver.count = counted  # type: ignore[method-assign]
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(counting, "SECOND", 3_600 * SECOND)  # the least time between two looks
    try:
        for _ in range(5):
            await client.get("/metrics")
    finally:
        monkeypatch.undo()
    assert looks == 1
