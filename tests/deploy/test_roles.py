"""Each role of deploy/postgres/roles.sql does its part, and is refused the rest with the grant that it lacks."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import yaml
from msgspec.structs import replace

from deploy.conftest import DEPLOY, ROLES, Role, Store
from postgres.binaries import binaries
from postgres.server import Server, unique_name
from web.conftest import Desk
from web.staged import paths, staged
from windlass import Retry, Windlass
from windlass.admin import Admin
from windlass.core import duties
from windlass.core.alterations import PutGroup, PutQueue, Revoke
from windlass.core.settle import Execution, Failed, Succeeded, settle
from windlass.drivers import migrate
from windlass.drivers.ops import adopting, retention
from windlass.drivers.values import Claim
from windlass.errors import JobDead, StoreForbidden
from windlass.handles import JobHandle
from windlass.records import Finding, WorkerInfo
from windlass.tasks import Task
from windlass.types import NewJob
from windlass.web.access import LOCAL, Access

HOUR = 3_600_000_000
WISH = Claim(queues=("default",), limit=1, lease_for=30_000_000, worker_id="w", token="t" * 20)
ME = WorkerInfo(id="w", hostname="h", pid=1, pool_size=1, version="0", queues=(), types=(), wakeups="pushed",
                running=0, started_at=0)  # fmt: skip
DUTIES: tuple[duties.Duty, ...] = (
    duties.Prune(succeeded=HOUR, cancelled=HOUR, dead=HOUR), duties.ForgetKeys(),
    duties.RemoveDeadWorkers(silent_for=HOUR), duties.SampleQueues(keep=HOUR), duties.RecountLimits(),
    duties.TidyPositions(), duties.AgeJobs(), duties.Mend(), duties.FanOut(), duties.ForgetEvents(keep=HOUR),
)  # fmt: skip
SAMPLE = duties.SampleQueues(keep=HOUR)
Step = Callable[[], Awaitable[object]]


def shop(store: Store, role: Role) -> Windlass:
    """A program that declares one of everything."""
    app = Windlass(store.url(role), migrate="never", log_root="none")
    app.queue("dense", positions="dense", max_running=2)
    app.queue("fair", order="fair", ageing=("1m", 5))
    app.limit("key:api", rate="100/s", burst=100)

    @app.task(retry=Retry(max_retries=0))
    async def add(a: int, b: int) -> int:
        if b == 0:
            raise ValueError("nothing to add")
        return a + b

    return app


async def is_refused(store: Store, role: Role, steps: list[Step]) -> None:
    for step in steps:
        with pytest.raises(StoreForbidden, match=rf"permission denied .*grant .* to {store.prefix}_{role}_login"):
            await step()


async def enqueued(app: Windlass) -> JobHandle[int]:
    """Every way to enqueue."""
    add: Task[..., int] = app.tasks["add"]
    plain = await add.enqueue(1, 2)
    await app.enqueue_many(add.job(n, 1) for n in range(3))
    for n in range(2):
        await add.using(queue="dense").enqueue(1, n + 1)
        await add.using(idempotency_key="once").enqueue(1, 5)
        await add.using(dedupe="here", on_duplicate="replace", delay="1h").enqueue(1, n + 1)
    await add.using(queue="fair", org_id="acme", limits=("key:api",)).enqueue(1, 3)
    await add.using(after=[plain]).enqueue(1, 6)
    async with app.group("nightly", mode="sequential") as group:
        group.add(add.job(1, 7))
        group.add(add.job(1, 8))
    return plain


def test_a_producer_enqueues_in_every_way_and_does_nothing_else(store: Store) -> None:
    dead = a_dead_job(store)

    async def run() -> None:
        async with shop(store, "producer") as app:
            plain = await enqueued(app)
            assert (await plain.fetch()).state == "queued"
            assert store.execute("select created from windlass.enqueue('add', '{\"a\": 1, \"b\": 1}')", "producer") == [
                (True,)
            ]
            late = await app.tasks["add"].using(after=[dead]).enqueue(1, 1)
            assert (await late.fetch()).state == "cancelled"
            driver, admin, now = app.client.driver, Admin(app.client), app.client.now()
            await is_refused(store, "producer", [
                lambda: driver.claim(WISH, now=now), lambda: driver.beat(ME, now=now),
                lambda: driver.lead("w", lease_for=HOUR, now=now), lambda: driver.maintain(SAMPLE, epoch=None, now=now),
                lambda: admin.pause("dense"), lambda: admin.create_token("x", ["read"]), admin.tokens,
                admin.audit, admin.webhooks, lambda: admin.delete(late.id), lambda: admin.set_priority(plain.id, 5),
                lambda: app.templates.put("t", "add", {"a": 1, "b": 1}),
            ])  # fmt: skip

    asyncio.run(run())


def test_a_worker_works_leads_and_maintains_and_operates_nothing(store: Store) -> None:
    as_admin(store, lambda admin: admin.create_webhook("https://receiver.invalid/", ["job.dead", "job.succeeded"]))

    async def run() -> None:
        async with shop(store, "worker") as app:
            app.cron("0 9 * * *", name="daily", params={"a": 1, "b": 1})(app.tasks["add"])
            plain, bad = await enqueued(app), await app.tasks["add"].enqueue(1, 0)
            async with app.running():
                assert await plain.result(timeout=20) == 3
                with pytest.raises(JobDead):
                    await bad.result(timeout=20)
            driver, admin, now = app.client.driver, Admin(app.client), app.client.now()
            await driver.beat(ME, now=now)
            assert (await driver.lead("w", lease_for=HOUR, now=now)).worker_id == "w"
            for duty in DUTIES:
                assert await driver.maintain(duty, epoch=None, now=now) is not None, duty
            assert await driver.maintain(duties.RollUpUsage(until=now), epoch=None, now=now + HOUR)
            await driver.alter([Revoke("w")], now=now)
            await admin.acquire("dense", "me", expires_in="1s", wait=0)
            await driver.claim(replace(WISH, queues=("dense",)), now=now + HOUR)  # which ends the hold, and notes it
            assert of(await driver.examine(now=now), "rights") == "ok"
            await is_refused(store, "worker", [
                lambda: admin.create_token("x", ["read"]), admin.tokens, admin.audit,
                lambda: app.schedules.delete("daily"),
                lambda: admin.create_webhook("https://receiver.invalid/", ["job.dead"]),
            ])  # fmt: skip

    asyncio.run(run())


def test_a_worker_that_leads_brings_duties_to_an_end_that_go_on_from_a_place(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention, of which members of a group stay, and the turns of a fair queue."""
    for module in (retention, adopting):
        monkeypatch.setattr(module, "VISITS", 1)
        monkeypatch.setattr(module, "FEWEST", 2)

    async def run() -> None:
        async with shop(store, "worker") as app:
            driver, now, job = app.client.driver, app.client.now(), NewJob(id="", type="add", queue="fair", max_attempts=1)
            await driver.alter([PutQueue("fair", order="fair"), PutGroup("g", total=5, on_failure="continue")], now=now)
            await driver.enqueue([replace(job, id=f"g{n}", group_id="g") for n in range(5)], now=now)
            taken = await driver.claim(replace(WISH, queues=("fair",), limit=5), now=now)
            ends = [settle(one, Failed("no") if one.id == "g4" else Succeeded(), Execution(at=now)) for one in taken]
            assert await driver.settle(ends, now=now) == ["applied"] * 5
            await driver.enqueue([replace(job, id=f"waits{n}") for n in range(5)], now=now)
            for duty in (duties.Prune(succeeded=0, limit=2), duties.RecountLimits(limit=2)):
                bites = [await driver.maintain(duty, epoch=None, now=now)]
                while bites[-1] is not None and bites[-1].more:
                    bites.append(await driver.maintain(duty, epoch=None, now=now))
                    assert len(bites) < 20, duty
                assert len(bites) > 2, duty

    asyncio.run(run())


def test_an_observer_sees_every_page_and_changes_nothing(store: Store) -> None:
    async def run() -> None:
        desk = Desk(url=store.admin)
        async with desk.app:
            ids = await staged(desk.app)
        desk = Desk(Access(anonymous=LOCAL), url=store.url("observer"))
        async with desk.app as app, desk.client() as client:
            for path in paths(ids):
                answer = await client.get(path, follow_redirects=False)
                allowed = not path.startswith("/webhooks")
                assert (answer.status_code == 200) == allowed, (path, answer.text)
            assert (await client.get("/metrics")).status_code == 200
            driver, admin, now = app.client.driver, Admin(app.client), app.client.now()
            assert of(await driver.examine(now=now), "rights") == "ok"
            await is_refused(store, "observer", [
                lambda: desk.add.enqueue(1, 2), lambda: driver.claim(WISH, now=now), lambda: driver.beat(ME, now=now),
                lambda: driver.maintain(SAMPLE, epoch=None, now=now), lambda: admin.cancel(ids.ready),
                lambda: admin.pause(ids.held), lambda: admin.create_token("x", ["read"]),
                lambda: admin.acting_as("ada").note("a", "b"),
                admin.webhooks,
            ])  # fmt: skip

    asyncio.run(run())


def test_an_operator_changes_what_people_change_and_does_not_work(store: Store) -> None:
    dead = a_dead_job(store)

    async def run() -> None:
        async with shop(store, "operator") as app:
            plain = await enqueued(app)
            client, driver, now = app.client, app.client.driver, app.client.now()
            admin = Admin(client, app.tasks).acting_as("ada")
            await admin.pause("dense")
            await admin.resume("dense")
            await admin.set_priority(plain.id, 7)
            await admin.move(plain.id, "top")
            await admin.renormalise("dense")
            await admin.cancel(plain.id)
            await admin.delete(plain.id)
            await admin.retry(dead)
            await admin.set_limit("key:api", 3)
            await admin.pause_limit("key:api", True)
            await admin.remove_limit("key:api")
            [group] = (await admin.groups(limit=1)).groups
            await admin.cancel_group(group.id)
            await app.templates.put("t", "add", {"a": 1, "b": 1})
            await app.schedules.put("s", "t", "0 9 * * *")
            await app.schedules.delete("s")
            await app.templates.delete("t")
            hold = await admin.acquire("fair", "ada", expires_in="1m", wait=0)
            await admin.release(hold.id, "ada")
            hook = (await admin.create_webhook("https://receiver.invalid/", ["job.dead"])).webhook
            await admin.rotate_webhook(hook.webhook_id)
            await admin.delete_webhook(hook.webhook_id)
            token, secret = await admin.create_token("x", ["read"])
            assert await admin.authenticate(secret) is not None
            await admin.revoke_token(token.id)
            await admin.repair(await admin.faults())
            assert len((await admin.audit()).lines) > 10
            await is_refused(store, "operator", [
                lambda: driver.beat(ME, now=now), lambda: driver.lead("w", lease_for=HOUR, now=now),
                lambda: driver.maintain(SAMPLE, epoch=None, now=now),
            ])  # fmt: skip

    asyncio.run(run())


@pytest.mark.parametrize("role", ["producer", "worker", "observer", "operator"])
def test_only_the_owner_changes_the_schema_and_nobody_the_audit_log(store: Store, role: Role) -> None:
    for text in (
        "alter table windlass.jobs add column x int", "drop table windlass.audit", "create table windlass.x ()",
        "update windlass.audit set actor = 'x'", "delete from windlass.audit", "truncate windlass.jobs",
        "delete from windlass.migrations", "alter table windlass.audit disable trigger audit_kept",
    ):  # fmt: skip
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            store.execute(text, role)
    assert migrate(store.url(role)) == []  # there is nothing to do, and it says so


def test_the_owner_s_objects_belong_to_the_role(store: Store) -> None:
    owners = store.execute("select distinct tableowner from pg_tables where schemaname = 'windlass'")
    assert owners == [(f"{store.prefix}_owner",)]


def test_running_the_script_again_restores_what_it_says(store: Store) -> None:
    rights = "select relname, relacl::text from pg_class where relnamespace = 'windlass'::regnamespace order by relname"
    before = store.execute(rights)
    store.execute(f"grant delete on windlass.jobs to {store.prefix}_producer")
    store.execute(f"revoke select on windlass.jobs from {store.prefix}_worker")
    store.script()
    assert {name: set(str(acl).strip("{}").split(",")) for name, acl in store.execute(rights)} == {
        name: set(str(acl).strip("{}").split(",")) for name, acl in before
    }


def test_every_table_is_somebody_s(store: Store) -> None:
    """A table of a later step that the script does not know would be refused to all."""
    script = (DEPLOY / "postgres" / "roles.sql").read_text()
    tables = "select relname from pg_class where relnamespace = 'windlass'::regnamespace and relkind in ('r', 'p')"
    for (name,) in store.execute(f"{tables} and not relispartition"):
        assert f" {name}" in script, name


def test_the_scalers_ask_what_an_observer_may_be_asked(store: Store) -> None:
    """KEDA's query is run as it stands, and its path leads to a number in what the server answers."""
    files = [
        yaml.safe_load_all((DEPLOY / "kubernetes" / f"keda-{kind}.yaml").read_text()) for kind in ("sql", "metrics-api")
    ]
    [by_sql], [by_api] = (next(one for one in file if one["kind"] == "ScaledObject")["spec"]["triggers"] for file in files)
    store.execute("truncate windlass.jobs cascade")
    store.execute("insert into windlass.jobs (type, run_at, ready) values ('a', null, true), ('b', now() + '1h', false)")
    assert by_sql["metadata"]["userName"] == "shop_observer"
    query = by_sql["metadata"]["query"]
    assert store.execute(query, "observer") == [(1,)]
    store.execute("update windlass.jobs set run_at = now() - interval '1s' where type = 'b'")  # due, and not seen to be
    assert store.execute(query, "observer") == [(2,)]
    store.execute("update windlass.jobs set run_at = now() + interval '1h' where type = 'b'")
    address = urlsplit(by_api["metadata"]["url"])
    found = re.fullmatch(r'(\w+)\.#\((\w+)=="(\w+)"\)\.(\w+)\.(\w+)', by_api["metadata"]["valueLocation"])
    assert found is not None
    many, key, value, part, number = found.groups()

    async def run() -> None:
        desk = Desk(url=store.url("observer"))
        async with desk.app, desk.client() as client:
            answer = (await client.get(address.path)).json()
            assert [one[part][number] for one in answer[many] if one[key] == value] == [1]

    asyncio.run(run())


def test_the_scaler_reads_no_job_that_has_ended(store: Store) -> None:
    """Retention keeps millions of them, and it asks every few seconds."""
    file = yaml.safe_load_all((DEPLOY / "kubernetes" / "keda-sql.yaml").read_text())
    spec = next(one for one in file if one["kind"] == "ScaledObject")["spec"]
    said = spec["triggers"][0]["metadata"]
    assert set(re.findall(r"limit (\d+)", said["query"])) == {str(spec["maxReplicaCount"] * int(said["targetQueryValue"]))}
    store.execute(
        "insert into windlass.jobs (type, state, ready, finished_at) select 'old', 'succeeded', false, now() "
        "from generate_series(1, 5000)"
    )
    store.execute("analyze windlass.jobs")
    plan = "\n".join(str(line) for (line,) in store.execute(f"explain {said['query']}", "observer"))
    store.execute("delete from windlass.jobs where type = 'old'")
    assert "Seq Scan" not in plan
    assert {"jobs_ready", "jobs_waiting", "jobs_leased"} <= set(re.findall(r"using (\w+)", plan)), plan


def test_one_who_may_make_roles_and_owns_the_database_can_run_the_script(postgres_server: Server) -> None:
    """Both times: once there is nothing to grant, once the tables are the owner's."""
    boss, name = unique_name("boss"), unique_name("db")
    url = postgres_server.create_database(name)
    mine = Store(url.replace("postgres@", f"{boss}@"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create role {boss} login createrole".encode())
        connection.execute(f"alter database {name} owner to {boss}".encode())
    try:
        assert "Now run windlass migrate" in mine.script()
        mine.execute(f"create role {mine.prefix}_login login in role {mine.prefix}_owner")
        mine.execute(f"alter role {mine.prefix}_login set role {mine.prefix}_owner")
        migrate(mine.admin.replace(f"{boss}@", f"{mine.prefix}_login@"))
        assert mine.script() == ""
        with psycopg.connect(url) as connection:
            asked = f"select has_table_privilege('{mine.prefix}_worker', 'windlass.jobs', 'delete')"
            assert connection.execute(asked.encode()).fetchall() == [(True,)]
    finally:
        roles = ", ".join([f"{mine.prefix}_login", *(f"{mine.prefix}_{role}" for role in ROLES), boss])
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"alter database {name} owner to postgres".encode())
            connection.execute(f"drop owned by {roles} cascade".encode())
            connection.execute(f"drop role {roles}".encode())
        postgres_server.drop_database(name)


def test_compose_makes_a_login_of_each_role_that_has_a_secret(postgres_server: Server, tmp_path: Path) -> None:
    """deploy/docker/roles.sh, twice as compose runs it."""
    for role in ("postgres", "owner", "worker"):
        (tmp_path / f"{role}_password").write_text(f"it's {role}\n")
    database = postgres_server.create_database(unique_name("db"))
    where = urlsplit(database)
    said = {
        "PATH": f"{binaries()}:/usr/bin:/bin", "PGHOST": str(where.hostname), "PGPORT": str(where.port),
        "PGUSER": "postgres", "PGDATABASE": where.path[1:], "SECRETS": str(tmp_path),
        "ROLES_SQL": str(DEPLOY / "postgres" / "roles.sql"),
    }  # fmt: skip
    script = DEPLOY / "docker" / "roles.sh"
    try:
        subprocess.run(["sh", script], env=said, check=True, capture_output=True)
        assert migrate(database.replace("postgres@", "shop_owner@"))
        subprocess.run(["sh", script], env=said, check=True, capture_output=True)
        Windlass(database.replace("postgres@", "shop_worker@"), migrate="never").open()
        with psycopg.connect(database) as connection:
            made = connection.execute("select rolname from pg_roles where rolname like 'shop%' order by 1").fetchall()
            [(kept,)] = connection.execute("select rolpassword from pg_authid where rolname = 'shop_worker'").fetchall()
        assert made == [("shop_owner",), ("shop_worker",)]
        assert kept.startswith("SCRAM-SHA-256$")
    finally:
        roles = ", ".join(["shop_owner", "shop_worker", *(f"windlass_{role}" for role in ROLES)])
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(f"drop owned by {roles} cascade".encode())
            connection.execute(f"drop role {roles}".encode())
        postgres_server.drop_database(where.path[1:])


def test_a_hand_that_may_change_one_column_changes_it_and_the_change_is_seen(store: Store) -> None:
    """That a row was touched is written with the owner's rights, which nobody can borrow for a table of their own."""
    hand, schema = unique_name("hand"), unique_name("theirs")
    [(job, before)] = store.execute("insert into windlass.jobs (type) values ('add') returning id, updated_at")
    store.execute(f"create role {hand} login")
    store.execute(f"create schema {schema} authorization {hand}")
    store.execute(f"grant usage on schema windlass to {hand}")
    store.execute(f"grant select, update (priority) on windlass.jobs to {hand}")
    try:
        with psycopg.connect(store.admin.replace("postgres@", f"{hand}@"), autocommit=True) as connection:
            connection.execute(
                f"create function {schema}.clock_timestamp() returns timestamptz return timestamptz 'epoch'".encode()
            )
            connection.execute(f"set search_path = {schema}, pg_catalog".encode())
            connection.execute("update windlass.jobs set priority = 7 where id = %s", (job,))
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("update windlass.jobs set updated_at = now() where id = %s", (job,))
            connection.execute("create table jobs (seq bigint, updated_at timestamptz)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("create trigger t after update on jobs for each row execute function windlass.touch()")
        [(priority, after)] = store.execute(f"select priority, updated_at from windlass.jobs where id = '{job}'")
        assert priority == 7
        assert isinstance(before, datetime)
        assert isinstance(after, datetime)
        assert after > before
    finally:
        store.execute(f"drop owned by {hand} cascade")
        store.execute(f"drop role {hand}")


# ------------------------------------------------------------------------------------------------------------- helpers


def as_admin(store: Store, action: Callable[[Admin], Awaitable[object]]) -> None:
    async def run() -> None:
        async with Windlass(store.admin) as app:
            await action(Admin(app.client))

    asyncio.run(run())


def a_dead_job(store: Store) -> str:
    name = unique_name("dead")
    store.execute(
        "insert into windlass.jobs (id, type, queue, state, finished_at, dead_at, dead_kind, dead_reason) "
        f"values ('{name}', 'add', 'default', 'dead', now(), now(), 'exhausted', 'x')"
    )
    return name


def of(found: Sequence[Finding], name: str) -> str:
    [finding] = [one for one in found if one.name == name]
    return finding.status
