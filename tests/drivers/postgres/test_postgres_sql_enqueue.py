"""`windlass.enqueue(...)`: jobs by a statement, from psql, are the jobs that the client would have stored."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from postgres.binaries import binaries
from windlass import Reject, Retry, Windlass
from windlass.admin import Admin
from windlass.admin.enqueueing import Wish
from windlass.core.alterations import PutQueue
from windlass.core.positions import FURTHEST
from windlass.errors import InvalidInput

OWN = {"seq", "id", "position", "created_at", "queued_at", "updated_at", "payload"}  # of one row, compared apart


class Desk:
    """A schema, its app, and psql."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn, self.schema = dsn, schema
        self.app = Windlass(dsn, schema=schema)

    def psql(self, *arguments: str, refused: bool = False, before: str = "") -> tuple[str, bool]:
        """Call the function, and answer the id and whether it was new; or what psql says of the error."""
        call = f'{before}select job_id, created from "{self.schema}".enqueue({", ".join(arguments)});'
        words = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", f"--dbname={self.dsn}", "--command", call]
        done = subprocess.run([binaries() / "psql", *words], capture_output=True, text=True)
        assert (done.returncode != 0) is refused, done.stderr
        if refused:
            return done.stderr, False
        job_id, created = done.stdout.strip().split("\n")[-1].split("|")
        return job_id, created == "t"

    def row(self, job_id: str) -> dict[str, Any]:
        with psycopg.connect(self.dsn, row_factory=dict_row) as connection:
            query = f'select * from "{self.schema}".jobs where id = %s'
            found = connection.execute(query, (job_id,)).fetchone()
            assert found is not None
            return dict(found)

    async def client(self, name: str, payload: dict[str, Any], **options: Any) -> str:
        [stored] = await Admin(self.app.client, None).enqueue_many([Wish(name, payload, options)])  # type: ignore[arg-type]
        return stored.job_id


def at_a_desk(fresh_schema: tuple[str, str], story: Callable[[Desk], Awaitable[None]]) -> None:
    async def main() -> None:
        desk = Desk(*fresh_schema)
        async with desk.app:
            await desk.app.client.ready()
            await story(desk)

    asyncio.run(main())


def test_a_job_by_psql_is_column_by_column_the_one_of_the_client(fresh_schema: tuple[str, str]) -> None:
    async def story(desk: Desk) -> None:
        mine, created = desk.psql("'mail'", '\'{"to": "ada"}\'')
        theirs = await desk.client("mail", {"to": "ada"})
        assert created
        same(desk, mine, theirs)
        mine, _ = desk.psql(
            "'mail'", "'{\"to\": \"ada\"}'", "queue => 'q'", "priority => 3", "delay => '1 hour'", "org_id => 'a:b/c%'",
            "idempotency_key => ' k '", "dedupe_key => 'd'", "tags => '{x,y}'", "headers => '{\"h\": \"1\"}'",
            "timeout => '90 s'",
        )  # fmt: skip
        theirs = await desk.client(
            "mail", {"to": "ada"}, queue="q", priority=3, delay="1h", org_id="a:b/c%", idempotency_key="k2", dedupe="d2",
            tags=("x", "y"), headers={"h": "1"}, timeout="90s",
        )  # fmt: skip
        ours, its = desk.row(mine), desk.row(theirs)
        assert (ours["run_at"] - ours["created_at"]) == (its["run_at"] - its["created_at"])
        same(desk, mine, theirs, "run_at", "idempotency_key", "dedupe_key")
        assert (ours["idempotency_key"], ours["dedupe_key"]) == ("k", "d")
        assert (await desk.client("mail", {}, org_id="a:b/c%", idempotency_key="k")) == mine

    def same(desk: Desk, mine: str, theirs: str, *but: str) -> None:
        ours, its = desk.row(mine), desk.row(theirs)
        left_out = OWN | set(but)
        assert {k: v for k, v in ours.items() if k not in left_out} == {k: v for k, v in its.items() if k not in left_out}
        assert json.loads(bytes(ours["payload"])) == json.loads(bytes(its["payload"]))
        assert ours["position"] == 100 * ours["seq"] < its["position"] == 100 * its["seq"]
        assert ours["created_at"] == ours["queued_at"] == ours["updated_at"] < its["created_at"]
        assert mine < theirs
        assert (len(mine), mine[14]) == (36, "7")

    at_a_desk(fresh_schema, story)


def test_the_rule_for_retries_is_the_usual_one(fresh_schema: tuple[str, str]) -> None:
    async def story(desk: Desk) -> None:
        @desk.app.task(name="mail", retry=Retry(max_attempts=3))
        async def mail() -> None: ...

        mine, theirs = desk.row(desk.psql("'mail'", "max_attempts => 3")[0]), desk.row((await mail.enqueue()).id)
        for column in ("retry_policy", "max_attempts", "max_lost"):
            assert mine[column] == theirs[column]

    at_a_desk(fresh_schema, story)


def test_a_key_names_its_job_where_a_hand_tied_the_chain_to_itself(fresh_schema: tuple[str, str]) -> None:
    """It has no last link. The statement comes back, in whose transaction it ever was."""

    async def story(desk: Desk) -> None:
        @desk.app.task(name="mail")
        async def mail() -> None:
            raise Reject("no")

        first, other = desk.psql("'mail'", "idempotency_key => 'k'")[0], desk.psql("'mail'")[0]
        await desk.app.worker().run(drain=True)
        with psycopg.connect(desk.dsn) as connection:
            for job, following in ((first, other), (other, first)):
                query = sql.SQL("update {}.jobs set superseded_by = %s where id = %s").format(sql.Identifier(desk.schema))
                connection.execute(query, (following, job))
        assert desk.psql("'mail'", "idempotency_key => 'k'", before="set statement_timeout = '30s';") == (first, False)

    at_a_desk(fresh_schema, story)


def test_a_key_makes_one_job_whoever_uses_it(fresh_schema: tuple[str, str]) -> None:
    async def story(desk: Desk) -> None:
        first, created = desk.psql("'mail'", "idempotency_key => 'k'")
        assert created
        assert desk.psql("'mail'", "idempotency_key => 'k'") == (first, False)
        assert await desk.client("mail", {}, idempotency_key="k") == first
        assert desk.psql("'other'", "idempotency_key => 'k'")[1]
        assert desk.psql("'mail'", "idempotency_key => 'k'", "org_id => 'acme'")[1]
        again = await desk.client("mail", {}, idempotency_key="by the client", idempotency_for="1ms")
        assert desk.psql("'mail'", "idempotency_key => 'by the client'")[0] != again  # its time is over
        lone, _ = desk.psql("'mail'", "dedupe_key => 'd'")
        assert desk.psql("'mail'", "dedupe_key => 'd'", "idempotency_key => 'e'") == (lone, False)
        assert desk.psql("'mail'", "idempotency_key => 'e'") == (lone, False)

    at_a_desk(fresh_schema, story)


def test_names_and_keys_are_bounded_as_the_client_bounds_them(fresh_schema: tuple[str, str]) -> None:
    """In bytes as UTF-8, too."""

    async def story(desk: Desk) -> None:
        duck, accent = "\N{DUCK}", "\N{LATIN SMALL LETTER E WITH ACUTE}"
        for name, key, fits in ((duck * 128, accent * 500, True), (duck * 129, "k", False), ("q", accent * 501, False)):
            words = f"queue => '{name}'", f"idempotency_key => '{key}'"
            told, _ = await asyncio.to_thread(desk.psql, "'mail'", *words, refused=not fits)
            assert fits or "bytes" in told
            if fits:
                assert desk.row(told)["queue"] == name
                assert await desk.client("mail", {}, queue=name, idempotency_key=key) == told
            else:
                with pytest.raises(InvalidInput, match="bytes as UTF-8"):
                    await desk.client("mail", {}, queue=name, idempotency_key=key)

    at_a_desk(fresh_schema, story)


def test_many_who_race_for_a_key_are_told_one_job(fresh_schema: tuple[str, str]) -> None:
    async def story(desk: Desk) -> None:
        answers = await asyncio.gather(
            *[asyncio.to_thread(desk.psql, "'mail'", "idempotency_key => 'k'") for _ in range(4)],
            *[asyncio.to_thread(desk.psql, "'mail'", "dedupe_key => 'd'") for _ in range(4)],
        )
        for half in (answers[:4], answers[4:]):
            assert len({job_id for job_id, _ in half}) == 1
            assert sorted(created for _, created in half) == [False, False, False, True]

    at_a_desk(fresh_schema, story)


def test_a_statement_wakes_a_worker_and_its_job_is_done(fresh_schema: tuple[str, str]) -> None:
    async def story(desk: Desk) -> None:
        driver = desk.app.client.driver
        while await driver.wait(timeout=0.2):
            pass
        waiting = asyncio.ensure_future(driver.wait(timeout=20))
        await asyncio.sleep(0.05)
        job_id, _ = await asyncio.to_thread(desk.psql, "'add'", '\'{"a": 1, "b": 2}\'')
        assert await waiting is True

        @desk.app.task(name="add")
        async def add(a: int, b: int) -> int:
            return a + b

        async with desk.app.running():
            assert await desk.app.job(job_id).result(timeout=20) == 3

    at_a_desk(fresh_schema, story)


def test_a_dense_queue_and_a_fair_one_get_what_they_need(fresh_schema: tuple[str, str]) -> None:
    async def story(desk: Desk) -> None:
        changes = [PutQueue("dense", positions="dense"), PutQueue("fair", order="fair")]
        await desk.app.client.driver.alter(changes, now=desk.app.client.now())
        places = [desk.row(desk.psql("'mail'", "queue => 'dense'")[0])["position"] for _ in range(2)]
        places.append(desk.row(await desk.client("mail", {}, queue="dense"))["position"])
        assert places == [100, 200, 300]
        with psycopg.connect(desk.dsn) as connection:
            connection.execute(f'update "{desk.schema}".jobs set position = {FURTHEST} where position = 300'.encode())
        assert desk.row(desk.psql("'mail'", "queue => 'dense'")[0])["position"] == FURTHEST
        shares = [desk.row(desk.psql("'mail'", "queue => 'fair'", *org)[0])["share"] for org in ((), ("org_id => 'a'",))]
        assert shares == ["", "=a"]

    at_a_desk(fresh_schema, story)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("''",), "type: must not be empty"),
        (("E'a\\tb'",), "type: must be printable"),
        (("repeat('x', 201)",), "type: must be printable"),
        (("'mail'", "'[1]'"), "payload: must be a JSON object"),
        (("'mail'", "null"), "payload: must be a JSON object"),
        (("'mail'", "jsonb_build_object('x', repeat('x', 1048576))"), "payload: is 10485"),
        (("'mail'", "run_at => now()", "delay => '1 s'"), "run_at: say this or delay"),
        (("'mail'", "delay => '-1 s'"), "must not be negative"),
        (("'mail'", "delay => '9000 years'"), "from 1970 on and before the year 9999"),
        (("'mail'", "run_at => '9999-01-02'"), "from 1970 on and before the year 9999"),
        (("'mail'", "run_at => '1969-01-02'"), "from 1970 on and before the year 9999"),
        (("'mail'", "idempotency_key => 'k'", "idempotency_for => '9000 years'"), "from 1970 on and before the year 9999"),
        (("'mail'", "max_attempts => 0"), "max_attempts: must be at least 1"),
        (("'mail'", "tags => '{a,a}'"), "tags: names one twice"),
        (("'mail'", "headers => '{\"a\": 1}'"), "headers: must be a JSON object of texts"),
        (("'mail'", "headers => '[]'"), "headers: must be a JSON object of texts"),
        (("'mail'", "idempotency_key => repeat('x', 1001)"), "at most 1000 bytes"),
        (("'mail'", "idempotency_key => repeat(chr(233), 501)"), "at most 1000 bytes"),
        (("'mail'", "dedupe_key => repeat(chr(233), 501)"), "at most 1000 bytes"),
        (
            ("'mail'", "queue => repeat(chr(129414), 129)"),
            "queue: must be printable text of at most 200 char",
        ),
        (("'mail'", "nonsense => 1"), "does not exist"),
    ],
)
def test_nonsense_is_refused_and_nothing_is_stored(
    fresh_schema: tuple[str, str], arguments: tuple[str, ...], told: str
) -> None:
    async def story(desk: Desk) -> None:
        error, _ = desk.psql(*arguments, refused=True)
        assert told in error
        assert await desk.app.client.driver.count(now=desk.app.client.now()) == []

    at_a_desk(fresh_schema, story)


def test_a_rollback_takes_the_job_and_its_key_back(fresh_schema: tuple[str, str]) -> None:
    async def story(desk: Desk) -> None:
        with psycopg.connect(desk.dsn) as connection:
            call = f"select job_id, created from \"{desk.schema}\".enqueue('mail', idempotency_key => 'k')"
            first = connection.execute(call).fetchone()
            assert first is not None
            connection.rollback()
        job_id, created = desk.psql("'mail'", "idempotency_key => 'k'")
        assert (created, job_id != first[0]) == (True, True)

    at_a_desk(fresh_schema, story)
