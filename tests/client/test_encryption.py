"""Encrypted jobs, from the call to the result: nothing readable in the store, nothing lost with a key."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from web.conftest import Desk
from web.test_worker_protocol import end, take
from windlass import Reject, Windlass
from windlass.admin import Admin
from windlass.core.alterations import Fire
from windlass.core.changes import Ack
from windlass.core.queries import AllSchedules
from windlass.core.uniqueness import apart, stored_dedupe_key
from windlass.drivers.http.encoding import encoded
from windlass.drivers.http.wire import ROOT, SettleCall
from windlass.drivers.sealed import sealed
from windlass.errors import InvalidInput, Undecodable
from windlass.sealing import is_sealed, new_line, ring_of
from windlass.types import NewJob

CANARY = "canary-4111"
Story = Callable[[Windlass], Awaitable[None]]


@pytest.fixture
def keys(tmp_path: Path) -> str:
    path = tmp_path / "keys"
    path.touch(0o600)
    path.write_text(new_line("k1"))
    return str(path)


def shop(tmp_path: Path, keys: str = "none") -> Windlass:
    app = Windlass(f"sqlite:///{tmp_path}/jobs.db", key_file=keys, log_root="none")

    @app.task
    async def echo(text: str) -> str:
        return f"said {text}"

    @app.task(context=True)
    async def follow(ctx: Any) -> str:
        return str([parent.result for parent in await ctx.parents()])

    @app.task(context=True)
    async def within(ctx: Any, text: str) -> str:
        async with ctx.transaction() as tx:
            await echo.enqueue(text)
            tx.result = text
        return ""

    return app


def run(tmp_path: Path, story: Story, keys: str = "none") -> None:
    async def main() -> None:
        async with shop(tmp_path, keys) as app:
            await story(app)

    asyncio.run(main())


def rows(tmp_path: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(f"{tmp_path}/jobs.db")
    try:
        return list(connection.execute(statement, values))
    finally:
        connection.close()


def everything(tmp_path: Path) -> bytes:
    return b"".join(path.read_bytes() for path in tmp_path.glob("jobs.db*"))


def test_arguments_and_results_are_readable_to_programs_and_not_in_the_file(tmp_path: Path, keys: str) -> None:
    async def story(app: Windlass) -> None:
        echo = app.tasks["echo"]
        job = await echo.using(org_id="acme").enqueue(CANARY)
        after = await app.tasks["follow"].using(after=[job]).enqueue()
        inside = await app.tasks["within"].enqueue(CANARY)
        twice = [await echo.using(dedupe=True, delay="1h").enqueue(CANARY) for _ in range(2)]
        assert twice[0].id == twice[1].id  # told apart before they are encrypted
        assert twice[1].existed
        echo.enqueue_sync(CANARY)
        await app.enqueue_many([echo.job(CANARY)])
        await app.tick(50)
        await app.tick(50)
        assert await job.result(5) == f"said {CANARY}"
        assert await after.result(5) == str([f"said {CANARY}"])
        assert await inside.result(5) == CANARY
        shown = (await Admin(app.client).job(job.id)).head
        assert (shown.payload, shown.result) == ({"text": CANARY}, f"said {CANARY}")
        assert {str(one.payload) for one in (await Admin(app.client).jobs()).jobs} == {"{}", str({"text": CANARY})}
        assert [str(one.payload) for one in (await Admin(app.client).order("default")).jobs] == [str({"text": CANARY})]

    run(tmp_path, story, keys)
    assert CANARY.encode() not in everything(tmp_path)
    assert {codec for (codec,) in rows(tmp_path, "select distinct codec from jobs")} == {"aes256gcm"}


def test_without_the_key_a_job_is_a_dead_letter_that_comes_back_with_it(tmp_path: Path, keys: str) -> None:
    ids: list[str] = []

    async def enqueue(app: Windlass) -> None:
        ids.append((await app.tasks["echo"].enqueue(CANARY)).id)

    async def without(app: Windlass) -> None:
        await app.tick()
        job = await app.job(ids[0]).fetch()
        assert (job.state, job.dead_kind) == ("dead", "rejected")
        assert "is encrypted with the key 'k1'" in (job.dead_reason or "")
        shown = (await Admin(app.client).job(ids[0])).head
        assert (shown.payload, shown.redacted) == ("encrypted", True)

    async def again(app: Windlass) -> None:
        await app.job(ids[0]).retry()
        await app.tick()
        assert await app.job(ids[0]).result(5) == f"said {CANARY}"

    async def unreadable(app: Windlass) -> None:
        with pytest.raises(Undecodable, match="result: is encrypted with the key 'k1'"):
            await app.job(ids[0]).result(5)
        shown = (await Admin(app.client).job(ids[0])).head
        assert (shown.payload, shown.result) == ("encrypted", "encrypted")

    run(tmp_path, enqueue, keys)
    run(tmp_path, without)
    run(tmp_path, again, keys)
    run(tmp_path, unreadable)


def test_rows_that_were_swapped_do_not_run(tmp_path: Path, keys: str) -> None:
    ids: list[str] = []

    async def enqueue(app: Windlass) -> None:
        ids.extend([(await app.tasks["echo"].using(org_id="acme").enqueue(text)).id for text in ("one", "two", "three")])

    async def work(app: Windlass) -> None:
        await app.tick()
        ends = [await app.job(job_id).fetch() for job_id in ids]
        assert [end.state for end in ends] == ["dead", "dead", "succeeded"]

    run(tmp_path, enqueue, keys)
    payloads = dict(rows(tmp_path, "select id, payload from jobs"))
    for one, other in ((0, 1), (1, 0)):
        rows(tmp_path, "update jobs set payload = ? where id = ?", payloads[ids[other]], ids[one])
    run(tmp_path, work, keys)


def test_after_a_rotation_old_jobs_run_and_new_ones_have_the_new_key(tmp_path: Path, keys: str) -> None:
    async def enqueue(app: Windlass) -> None:
        await app.tasks["echo"].enqueue("x")

    async def work(app: Windlass) -> None:
        await app.tasks["echo"].enqueue("y")
        await app.tick()

    run(tmp_path, enqueue, keys)
    with Path(keys).open("a") as file:
        file.write(new_line("k2"))
    run(tmp_path, work, keys)
    found = rows(tmp_path, "select state, payload, result from jobs order by seq")
    assert [state for state, _, _ in found] == ["succeeded", "succeeded"]
    assert [(payload[5:7], result[5:7]) for _, payload, result in found] == [(b"k1", b"k2"), (b"k2", b"k2")]


def test_jobs_of_before_run_beside_those_that_are_encrypted(tmp_path: Path, keys: str) -> None:
    async def enqueue(app: Windlass) -> None:
        await app.tasks["echo"].enqueue("x")

    async def work(app: Windlass) -> None:
        await app.tasks["echo"].enqueue("y")
        assert (await app.tick()).succeeded == 2

    run(tmp_path, enqueue)
    run(tmp_path, work, keys)


def test_a_job_whose_worker_died_is_opened_again(tmp_path: Path, keys: str) -> None:
    async def die(app: Windlass) -> None:
        await app.tasks["echo"].enqueue(CANARY)
        assert [job.payload for job in await app.repository.claim()] == [b'{"text":"canary-4111"}']

    async def work(app: Windlass) -> None:
        [job] = (await Admin(app.client).jobs()).jobs
        assert (await app.tick()).succeeded == 1
        assert await app.job(job.id).result(5) == f"said {CANARY}"

    run(tmp_path, die, keys)
    rows(tmp_path, "update jobs set lease_expires_at = 1")
    run(tmp_path, work, keys)


def test_a_schedule_makes_encrypted_jobs(tmp_path: Path, keys: str) -> None:
    async def story(app: Windlass) -> None:
        await app.templates.put("t", "echo", {"text": "from a template"})
        await app.schedules.put("s", "t", every="1h")
        await app.schedules.run("s")
        [schedule] = await app.client.driver.read(AllSchedules())
        assert schedule.next_trigger_at is not None
        job = NewJob(
            id="fired",
            type="echo",
            payload=b'{"text":"x"}',
            schedule_id=schedule.schedule_id,
            fire_at=schedule.next_trigger_at,
        )
        due = Fire(
            schedule_id=schedule.schedule_id, expected=schedule.next_trigger_at, next_trigger_at=None, jobs=(job,)
        )  # fmt: skip
        assert await app.client.driver.alter([due], now=schedule.next_trigger_at) == ["applied"]

    run(tmp_path, story, keys)
    assert rows(tmp_path, "select codec from jobs") == [("aes256gcm",), ("aes256gcm",)]


def test_on_postgresql_it_is_the_same(fresh_database: str, keys: str) -> None:
    async def main() -> None:
        async with Windlass(fresh_database, key_file=keys, log_root="none") as app:

            @app.task
            async def echo(text: str) -> str:
                return f"said {text}"

            job = await echo.enqueue(CANARY)
            async with app.running():
                assert await job.result(20) == f"said {CANARY}"

    asyncio.run(main())
    with psycopg.connect(fresh_database) as connection:
        [(codec, payload, result)] = connection.execute("select codec, payload, result from windlass.jobs").fetchall()
    assert codec == "aes256gcm"
    assert CANARY.encode() not in payload + result


def test_over_http_the_server_has_the_keys(tmp_path: Path, keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_KEY_FILE", keys)

    async def main() -> None:
        desk = Desk(url=f"sqlite:///{tmp_path}/jobs.db")
        async with desk.app, desk.client() as client:
            job = await desk.add.enqueue(1, 2)
            taken = await take(client)
            assert b64decode(taken["payload"]) == b'{"a":1,"b":2}'
            await end(client, taken, "succeeded", result=3)
            assert await job.result(5) == 3
            other = await desk.add.using(org_id="acme").enqueue(3, 4)
            taken = await take(client, "t2")
            done = Ack(handle=other.id, token=taken["token"], at=desk.app.client.now(), result=b"7")  # by the driver's door
            said = encoded(SettleCall(changes=(done,)))
            answer = await client.post(
                f"{ROOT}/driver/settle", content=said, headers={"Content-Type": "application/json"}
            )  # fmt: skip
            assert answer.json() == ["applied"], answer.text
            assert await other.result(5) == 7

    asyncio.run(main())
    assert all(is_sealed(result) for (result,) in rows(tmp_path, "select result from jobs"))
    with pytest.raises(InvalidInput, match="the keys are the server's"):
        Windlass("http://127.0.0.1:1", key_file=keys).open()


@pytest.mark.parametrize(
    "said", [{"retry_mode": "new_job"}, {"dedupe": "k", "on_duplicate": "replace"}, {"dedupe": "k", "debounce": "1s"}]
)
def test_what_would_move_a_payload_to_another_job_is_refused(tmp_path: Path, keys: str, said: dict[str, Any]) -> None:
    async def story(app: Windlass) -> None:
        with pytest.raises(InvalidInput, match="encrypted ones belong to one"):
            await app.tasks["echo"].using(**said).enqueue("x")

    run(tmp_path, story, keys)


def test_a_group_whose_members_would_come_back_as_others_is_refused_and_left_as_it_is(tmp_path: Path, keys: str) -> None:
    async def story(app: Windlass) -> None:
        @app.task
        async def fail(text: str) -> None:
            raise Reject(text)

        async with app.group("nightly", mode="sequential") as group:
            group.add(fail.job("no"))
            group.add(app.tasks["echo"].job(CANARY))
        await app.tick(50)
        admin = Admin(app.client)
        [made] = (await admin.groups(limit=1)).groups
        with pytest.raises(InvalidInput, match="is cancelled and would come back as another job"):
            await admin.retry_group(made.id)
        assert sorted(job.state for job in (await admin.jobs()).jobs) == ["cancelled", "dead"]

    run(tmp_path, story, keys)


@pytest.mark.parametrize("text", ["4111", "4111" * 60])
@pytest.mark.parametrize("of_queue", [False, True])
def test_the_key_of_a_duplicate_tells_no_arguments_also_within_a_queue(keys: str, text: str, of_queue: bool) -> None:
    ring = ring_of(keys)
    assert ring is not None
    key = stored_dedupe_key("pay", "acme", {"card": text})
    new = NewJob(
        id="j", type="pay", org_id="acme", queue="bills", payload=f'{{"card":"{text}"}}'.encode(), dedupe_key=key
    )  # fmt: skip
    [stored] = sealed(ring, [apart(new, of_org=True, of_queue=of_queue)])
    assert (stored.dedupe_key or "").startswith("sealed:")


def test_a_result_is_read_although_the_key_of_its_arguments_is_gone(tmp_path: Path, keys: str) -> None:
    ids: list[str] = []

    async def enqueue(app: Windlass) -> None:
        ids.append((await app.tasks["echo"].enqueue("x")).id)

    async def work(app: Windlass) -> None:
        await app.tick()

    async def read(app: Windlass) -> None:
        assert await app.job(ids[0]).result(5) == "said x"

    run(tmp_path, enqueue, keys)
    Path(keys).write_text(Path(keys).read_text() + new_line("k2"))
    run(tmp_path, work, keys)
    Path(keys).write_text(Path(keys).read_text().splitlines()[1])
    run(tmp_path, read, keys)
