"""What is promised to Django projects. Run by test_django.py, in a process that is a project, on a database of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import django
import pytest

django.setup()

from django.contrib.auth.models import Permission, User
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.test import Client, override_settings
from django.utils import timezone
from msgspec.structs import replace
from orders.models import Order
from orders.tasks import send_receipt, ship
from shop import asgi as shop_asgi

from windlass import Retry, fixed
from windlass.apart import apart
from windlass.django import app
from windlass.django import backend as windlass_backend
from windlass.django import past as windlass_past
from windlass.django.backend import WindlassBackend
from windlass.django.configuring import configured, environment, url_of
from windlass.django.management.commands.windlass import with_app
from windlass.django.past import Past
from windlass.django.program import TARGET
from windlass.django.results import as_result, at
from windlass.errors import Undecodable

try:
    from django.tasks import TaskResultStatus, task, task_backends
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist, TaskResultMismatch
except ImportError:
    from django_tasks import TaskResultStatus, task, task_backends
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist, TaskResultMismatch

calls: list[Any] = []


class OutOfStock(Exception):
    pass


@task
def add(a: int, b: int = 1) -> int:
    calls.append(threading.current_thread().name)
    return a + b


@task
async def later(what: str) -> dict[str, Any]:
    await asyncio.sleep(0)
    await Order.objects.acreate(item=what)
    return {"what": what}


@task
def fail() -> None:
    raise OutOfStock("no tea")


@task
def unstorable() -> object:
    return object()


@task(takes_context=True)
def counted(context: Any, until: int) -> int:
    if context.attempt < until:
        raise OutOfStock("again")
    assert context.task_result.status == TaskResultStatus.RUNNING
    assert context.task_result.kwargs == {"until": until}
    return int(context.attempt)


@app.task
def uses_orm() -> int:
    calls.append(connection.connection)
    return Order.objects.count()


@pytest.fixture(scope="module", autouse=True)
def _database() -> Iterator[None]:
    call_command("migrate", verbosity=0)
    yield
    asyncio.run(app.close())
    connections.close_all()


def drain() -> Any:
    """A worker on the real store, as `manage.py windlass worker --drain` is, in this process."""
    return asyncio.run(_drain())


async def _drain() -> Any:
    return await app.worker().run(drain=True)


# ---------------------------------------------------------------------------------------------------------- the project


def test_a_job_is_stored_with_the_transaction_around_it() -> None:
    with transaction.atomic():
        order = Order.objects.create(item="tea")
        job = ship.enqueue_sync(order.pk)
        with pytest.raises(Exception, match="there is no job"):
            app.job(job.id).fetch_sync()
    assert app.job(job.id).fetch_sync().state == "queued"

    ids = list[str]()
    with pytest.raises(ValueError, match="unicorn"), transaction.atomic():
        order = Order.objects.create(item="unicorn")
        ids += [ship.enqueue_sync(order.pk).id, send_receipt.enqueue(order.pk).id]
        raise ValueError("unicorn")
    for job_id in ids:
        with pytest.raises(Exception, match="there is no job"):
            app.job(job_id).fetch_sync()

    with transaction.atomic():
        kept = add.enqueue(1)
        with pytest.raises(ValueError, match="inner"), transaction.atomic():
            gone = add.enqueue(2)
            raise ValueError("inner")
    assert add.get_result(kept.id).status == TaskResultStatus.READY
    with pytest.raises(TaskResultDoesNotExist):
        add.get_result(gone.id)
    assert drain().succeeded == 2
    assert Order.objects.get(item="tea").shipped


def test_handlers_leave_no_connection_behind() -> None:
    calls.clear()
    for _ in range(2):
        uses_orm.enqueue_sync()
    assert drain().succeeded == 2
    assert calls == [None, None], "what the handler before it has left open was closed"


def test_settings_are_checked_and_say_where_the_jobs_are() -> None:
    with override_settings(WINDLASS={"LEAZE": "30s"}), pytest.raises(ImproperlyConfigured, match=r"did you mean 'lease'"):
        configured()
    with override_settings(WINDLASS={"DATABASE": "other"}):
        [found] = [found for found in checks.run_checks() if found.id == "windlass.E001"]
        assert "'other', which is not among DATABASES" in found.msg
    with override_settings(WINDLASS={"URL": "sqlite:////var/jobs.db", "LEASE": timedelta(seconds=20)}):
        conf = configured()
        assert not conf.in_django
        assert environment(conf, conf.url or "") == {"WINDLASS_URL": "sqlite:////var/jobs.db", "WINDLASS_LEASE": "20s"}
    assert url_of({"ENGINE": "django.db.backends.sqlite3", "NAME": "/a b/x?.db"}, "x") == "sqlite:////a%20b/x%3F.db"
    assert url_of({"ENGINE": "django.db.backends.sqlite3", "NAME": "file:memorydb?mode=memory"}, "x") == "memory://"
    place = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "n",
        "USER": "u@x",
        "PASSWORD": "p/w",
        "HOST": "h",
        "PORT": 6543,
    }
    assert url_of({**place, "OPTIONS": {"sslmode": "require", "pool": True}}, "x") == (
        "postgresql://u%40x:p%2Fw@h:6543/n?sslmode=require"
    )
    assert url_of({**place, "HOST": "/run/pg", "PASSWORD": ""}, "x") == "postgresql://u%40x@/n?host=%2Frun%2Fpg&port=6543"
    with pytest.raises(ImproperlyConfigured, match="jobs are kept in PostgreSQL or SQLite"):
        url_of({"ENGINE": "django.db.backends.mysql"}, "x")


def test_a_sqlite_file_is_shared_through_one_library() -> None:
    if connection.vendor != "sqlite":
        pytest.skip("of SQLite")
    assert app.client.settings.sqlite == "stdlib"
    with override_settings(WINDLASS={"SQLITE": "apsw"}), pytest.raises(ImproperlyConfigured, match="must be 'stdlib'"):
        configured()
    bare = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "x.db"}}
    with override_settings(DATABASES=bare):
        assert [found.id for found in checks.run_checks() if found.id == "windlass.W001"]
    with connection.cursor() as cursor:
        cursor.execute("pragma wal_autocheckpoint")
        assert cursor.fetchone()[0] in (0, 1_000)


def test_the_command_is_ours_with_the_project_as_its_program(capfd: pytest.CaptureFixture[str]) -> None:
    assert with_app(["worker", "--drain"]) == ["worker", TARGET, "--drain"]
    assert with_app(["worker", "other:app"]) == ["worker", "other:app"]
    assert with_app(["enqueue", "ship", "order_id=1"]) == ["enqueue", "--app", TARGET, "ship", "order_id=1"]
    assert with_app(["enqueue", "--app=x", "ship"]) == ["enqueue", "--app=x", "ship"]
    assert with_app(["jobs", "list"]) == ["jobs", "list"]
    call_command("windlass", "jobs", "list", "--state", "dead", "--json")
    assert '"jobs"' in capfd.readouterr().out
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    call_command("windlass", "doctor")
    assert ("its database 'default' is this file" in capfd.readouterr().out) == (connection.vendor == "sqlite")
    with pytest.raises(CommandError, match="ended with 1"):
        call_command("windlass", "jobs", "show", "no-such-job")


def test_the_admin_shows_jobs_to_those_who_may_look_and_changes_nothing() -> None:
    failed = fail.enqueue()
    drain()
    User.objects.filter(username__in=["ada", "bob"]).delete()
    ada = User.objects.create(username="ada", is_staff=True)
    ada.user_permissions.add(Permission.objects.get(codename="view_job", content_type__app_label="windlass"))
    bob = User.objects.create(username="bob", is_staff=True)
    client, place = Client(), "/admin/windlass/job/"
    client.force_login(bob)
    assert client.get(place).status_code == 403
    assert client.get(f"{place}{failed.id}/change/").status_code == 403
    client.force_login(ada)
    shown = client.get(place, {"state": "dead"})
    assert shown.status_code == 200
    assert failed.id in shown.content.decode()
    assert 'href="/windlass/"' in shown.content.decode()
    assert failed.id not in client.get(place, {"state": "queued"}).content.decode()
    page = client.get(f"{place}{failed.id}/change/").content.decode()
    assert "OutOfStock: no tea" in page
    assert f"/windlass/jobs/{failed.id}" in page
    assert client.get(f"{place}nothing/change/").status_code == 404
    assert client.get(place, {"state": "odd"}).status_code == 404
    assert client.get(f"{place}add/").status_code == 404
    assert client.post(f"{place}{failed.id}/delete/").status_code == 404
    assert client.get("/admin/").status_code == 200


def test_the_dashboard_knows_the_staff_of_django() -> None:
    from starlette.testclient import TestClient

    job = add.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1)
    User.objects.filter(username__in=["eve", "joe", "may", "sue"]).delete()
    looks, acts = (
        Permission.objects.get(codename=name, content_type__app_label="windlass") for name in ("view_job", "operate_job")
    )
    people = {name: User.objects.create(username=name, is_staff=name != "eve") for name in ("eve", "joe", "may", "sue")}
    people["sue"].is_superuser = True
    people["sue"].save()
    people["eve"].user_permissions.add(looks, acts)  # not of the staff
    people["joe"].user_permissions.add(looks)
    people["may"].user_permissions.add(looks, acts)
    site = TestClient(shop_asgi.application)
    cancel, told = f"/windlass/api/jobs/{job.id}/cancel", dict[str, tuple[int, int, int]]()
    for name, user in people.items():
        signed_in = Client()
        signed_in.force_login(user)
        site.cookies.clear()
        site.cookies["sessionid"] = signed_in.cookies["sessionid"].value
        sent = {"Sec-Fetch-Site": "cross-site"} if name == "may" else {}
        told[name] = (
            site.get(f"/windlass/api/jobs/{job.id}").status_code, site.post(cancel, json={}, headers=sent).status_code,
            site.get("/windlass/api/tokens").status_code,
        )  # fmt: skip
    assert told["eve"] == (401, 401, 401)
    assert told["joe"] == (200, 403, 403)
    assert told["may"] == (200, 403, 403), "a page of another site cannot use the cookie"
    assert told["sue"][0] == told["sue"][2] == 200
    site.cookies["sessionid"] = "forged"
    assert site.get(f"/windlass/api/jobs/{job.id}").status_code == 401
    assert site.get("/admin/login/").status_code == 200, "the rest is Django's"
    app.job(job.id).cancel_sync()


# --------------------------------------------------------------------------------------------------------- django.tasks


def test_a_task_runs_and_its_result_is_told() -> None:
    calls.clear()
    before = timezone.now() - timedelta(seconds=2)
    result = add.enqueue(40, b=2)
    assert (result.status, result.args, result.kwargs, result.attempts) == (TaskResultStatus.READY, [40], {"b": 2}, 0)
    assert result.enqueued_at >= before
    assert not result.is_finished
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    drain()
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (TaskResultStatus.SUCCESSFUL, 42, 1)
    assert before <= result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at
    assert result.errors == []
    assert result.is_finished
    assert result.worker_ids[0]
    assert calls == ["windlass-handler-0"]
    again = add.get_result(result.id)
    assert (again.id, again.return_value, again.task.func) == (result.id, 42, add.func)


def test_what_is_encrypted_for_others_is_said_to_be() -> None:
    """A process without the key ring is told of the key, not of JSON."""
    result = add.enqueue(40)
    drain()
    job = apart(app.job(result.id).fetch)
    locked = b"\x00WL1\x032030" + bytes(40)
    for part in ({"payload": locked}, {"result": locked}):
        with pytest.raises(Undecodable, match="encrypted with the key '203'"):
            as_result(add, "default", replace(job, **part), Past(), job.id)


def test_async_tasks_and_async_calls() -> None:
    async def story() -> None:
        result = await later.aenqueue("spoon")
        await _drain()
        await result.arefresh()
        assert result.return_value == {"what": "spoon"}
        assert (await later.aget_result(result.id)).status == TaskResultStatus.SUCCESSFUL
        assert await Order.objects.filter(item="spoon").acount() == 1

    asyncio.run(story())


def test_an_exception_ends_a_task_and_is_told_with_its_class() -> None:
    result = fail.enqueue()
    assert drain().dead == 1
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 1)
    [error] = result.errors
    assert error.exception_class is OutOfStock
    assert "no tea" in error.traceback
    assert "raise OutOfStock" in error.traceback
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    other = unstorable.enqueue()
    drain()
    other.refresh()
    assert [error.exception_class for error in other.errors] == [TypeError]


def test_one_who_asks_for_more_attempts_has_them() -> None:
    backend = WindlassBackend("default", {"OPTIONS": {"retry": Retry(max_retries=2, backoff=fixed(0))}})
    result = backend.enqueue(counted, (), {"until": 3})
    assert drain().succeeded == 1
    result.refresh()
    assert (result.return_value, result.attempts) == (3, 3)
    assert [error.exception_class for error in result.errors] == [OutOfStock, OutOfStock]


def test_one_with_more_attempts_than_are_read_at_once_is_told_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = WindlassBackend("default", {"OPTIONS": {"retry": Retry(max_retries=4, backoff=fixed(0))}})
    result = backend.enqueue(counted, (), {"until": 5})
    monkeypatch.setattr(windlass_past, "RUNS_LIMIT", 2)
    assert drain().succeeded == 1
    result.refresh()
    runs = app.job(result.id).runs_sync()
    assert (result.return_value, result.attempts, len(runs), len(result.errors)) == (5, 5, 5, 1)
    assert (result.started_at, result.last_attempted_at) == (at(runs[0].started_at), at(runs[-1].started_at))
    assert result.worker_ids == ["", "", "", runs[-2].worker_id, runs[-1].worker_id]


def test_a_success_that_leaves_no_run_is_an_attempt_all_the_same() -> None:
    backend = WindlassBackend("default", {"OPTIONS": {"history": "failures"}})
    result = backend.enqueue(add, (1,), {})
    drain()
    result.refresh()
    assert app.job(result.id).runs_sync() == []
    assert (result.return_value, result.attempts) == (2, 1)
    assert result.enqueued_at <= result.started_at == result.last_attempted_at <= result.finished_at
    assert result.worker_ids[0]


def test_priorities_queues_and_times_are_kept() -> None:
    first, second, third = add.enqueue(1), add.using(priority=50).enqueue(2), add.using(priority=-100).enqueue(3)
    order = [app.job(each.id).fetch_sync().priority for each in (first, second, third)]
    assert order == [0, 50, -100]
    mail = add.using(queue_name="mail").enqueue(4)
    at = timezone.now() + timedelta(hours=1)
    late = add.using(run_after=at).enqueue(5)
    assert drain().succeeded == 4, "also of a queue that no task was declared with"
    assert app.job(mail.id).fetch_sync().queue == "mail"
    assert [add.get_result(each.id).task.priority for each in (second, third)] == [50, -100]
    late.refresh()
    assert late.status == TaskResultStatus.READY
    assert add.get_result(late.id).task.run_after == at
    app.job(late.id).cancel_sync()
    late.refresh()
    assert late.status == TaskResultStatus.FAILED
    assert late.errors[0].exception_class_path == "windlass.errors.JobCancelled"


@pytest.mark.parametrize("wrong", ["queue", "priority", "naive", "local", "context", "argument"])
def test_what_cannot_be_run_is_refused_when_it_is_said(wrong: str) -> None:
    def local() -> None: ...

    def context_last(a: int) -> None: ...

    with pytest.raises((InvalidTask, TypeError)):
        if wrong == "queue":
            add.using(queue_name="nowhere")
        elif wrong == "priority":
            add.using(priority=101)
        elif wrong == "naive":
            add.using(run_after=timezone.now().replace(tzinfo=None))
        elif wrong == "local":
            task(local)
        elif wrong == "context":
            context_last.__qualname__ = "context_last"
            task(takes_context=True)(context_last)
        else:
            add.enqueue(object())


def test_results_of_others_are_not_given() -> None:
    own = ship.using(delay="1h").enqueue_sync(1)
    foreign = add.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1)
    with pytest.raises(TaskResultDoesNotExist, match=r"is no task of django\.tasks"):
        add.get_result(own.id)
    with pytest.raises(TaskResultDoesNotExist):
        add.get_result("no-such-id")
    with pytest.raises(TaskResultMismatch):
        fail.get_result(foreign.id)


def test_signals_are_sent_when_it_is_enqueued_begun_and_stored() -> None:
    heard = list[tuple[str, str, str]]()
    signals = {name: getattr(windlass_backend, f"task_{name}") for name in ("enqueued", "started", "finished")}
    receivers = {
        name: (lambda sender, task_result, name=name, **_: heard.append((name, task_result.id, str(task_result.status))))
        for name in signals
    }
    for name, signal in signals.items():
        signal.connect(receivers[name])
    try:
        good, bad = add.enqueue(1), fail.enqueue()
        drain()
    finally:
        for name, signal in signals.items():
            signal.disconnect(receivers[name])
    for result, end in ((good, "SUCCESSFUL"), (bad, "FAILED")):
        own = [(name, status) for name, job_id, status in heard if job_id == result.id]
        assert own == [("enqueued", "READY"), ("started", "RUNNING"), ("finished", end)]


def test_the_backend_says_what_it_can_and_checks_its_options() -> None:
    backend = task_backends["default"]
    assert isinstance(backend, WindlassBackend)
    able = (backend.supports_defer, backend.supports_async_task, backend.supports_get_result, backend.supports_priority)
    assert able == (True, True, True, True)
    assert list(backend.check()) == []
    [found] = WindlassBackend("other", {"OPTIONS": {"priority": 3}}).check()
    assert found.id == "windlass.E002"
