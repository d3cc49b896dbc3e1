"""Bad input at every public door: the error says what to do instead, and nothing is stored."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from windlass import Context, Retry, Snooze, Windlass, WindlassError, current, exponential, rule
from windlass.errors import InvalidInput, JobNotFound, NoCurrentJob, UnknownStore, UnknownTask, WrongConnection
from windlass.signals import RetryAfter

from .conftest import Place, rows

MEGABYTE = 1 << 20
HUGE = 10**5000


class Opaque:
    pass


@pytest.fixture
def app(place: Place) -> Windlass:
    return place.app()


def declare(app: Windlass, **options: Any) -> Any:
    async def send(to: str, *, copies: int = 1) -> str:
        return to * copies

    return app.task(**options)(send)


def both(app: Windlass, enqueuer: Any, *args: Any, **kwargs: Any) -> list[Callable[[], Any]]:
    """Every way of enqueueing one call."""
    return [
        lambda: asyncio.run(enqueuer.enqueue(*args, **kwargs)),
        lambda: enqueuer.enqueue_sync(*args, **kwargs),
        lambda: app.enqueue_many_sync([enqueuer.job(*args, **kwargs)]),
    ]


def nothing_stored(app: Windlass) -> bool:
    return asyncio.run(rows(app)) == []


# ----------------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, "to: is missing; send takes to, copies"),
        ((5,), {}, "to: Expected `str`, got `int`"),
        ((None,), {}, "to: Expected `str`, got `null`"),
        ((b"ada",), {}, "to: .*bytes"),
        (("ada", 2), {}, "arguments: .*send takes to, copies"),
        (("ada",), {"copy": 2}, r"copy: is not an argument \(did you mean 'copies'\?\)"),
        (("ada",), {"to": "bob"}, "to: is given twice"),
        (("ada",), {"copies": 2.5}, "copies: Expected `int`, got `float`"),
        (("ada",), {"copies": float("nan")}, "copies: "),
        (("ada",), {"copies": "2"}, "copies: Expected `int`, got `str`"),
        ((Opaque(),), {}, "to: a Opaque cannot be stored; give plain data"),
        (("\ud800",), {}, "to: holds half a character"),
        (("x" * 10 * MEGABYTE,), {}, r"to: is 10,485,7\d\d bytes .*the limit is 1,048,576; store a reference"),
    ],
)
def test_arguments_that_do_not_fit_are_named(app: Windlass, args: Any, kwargs: Any, says: str) -> None:
    send = declare(app)
    for attempt in both(app, send, *args, **kwargs):
        with pytest.raises(InvalidInput, match=says):
            attempt()
    assert nothing_stored(app)


def test_one_bad_call_keeps_the_whole_batch_out(app: Windlass) -> None:
    send = declare(app)
    with pytest.raises(InvalidInput, match="to: Expected `str`"):
        app.enqueue_many_sync(send.job(to) for to in ("ada", 5, "bob"))
    assert nothing_stored(app)


def test_a_payload_as_large_as_the_limit_is_stored(place: Place) -> None:
    app = place.app()
    send = declare(app)
    send.enqueue_sync("x" * (MEGABYTE - len('{"to":""}')))
    [row] = asyncio.run(rows(app))
    assert len(row.payload) == app.client.settings.payload_limit


# ------------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"prority": 1}, r"prority: is not an option of using\(...\) \(did you mean 'priority'\?\)"),
        ({"name": "x"}, "name: is not an option of using"),
        ({"priority": "high"}, "priority: must be a whole number"),
        ({"priority": True}, "priority: must be a whole number"),
        ({"priority": 2**40}, "priority: must be a whole number of 32 bits"),
        ({"delay": -1}, "delay: must not be negative"),
        ({"delay": "soon"}, "delay: 'soon' is not a duration; write '30s'"),
        ({"delay": float("nan")}, "delay: nan is not a duration"),
        ({"delay": float("inf")}, "delay: .*longer than a thousand years"),
        ({"delay": None}, "delay: None is not a duration"),
        ({"delay": 1, "run_at": datetime(2030, 1, 1)}, "delay: give delay or run_at, not both"),  # noqa: DTZ001
        ({"run_at": datetime(2030, 1, 1)}, "run_at: .*has no time zone; use datetime.now"),  # noqa: DTZ001
        ({"run_at": "2030-01-01"}, "run_at: must be a datetime with a time zone"),
        ({"run_at": 1_900_000_000}, "run_at: must be a datetime with a time zone.*delay='5m'"),
        ({"timeout": -1}, "timeout: must not be negative"),
        ({"timeout": "1 fortnight"}, "timeout: .*is not a duration"),
        ({"retry": 3}, r"retry: must be a windlass.Retry such as Retry\(max_retries=3\)"),
        ({"max_lost": -1}, "max_lost: must be a whole number"),
        ({"max_lost": "three"}, "max_lost: must be a whole number"),
        ({"retry_mode": "again"}, "retry_mode: must be one of new_job, same_job"),
        ({"retry_mode": "new_job", "crash_policy": "requeue"}, "crash_policy: .*use 'fail'"),
        ({"crash_policy": "explode"}, "crash_policy: must be one of fail, requeue"),
        ({"on_unknown": "explode"}, "on_unknown: must be one of dead, wait"),
        ({"on_duplicate": "explode"}, "on_duplicate: must be one of ignore, raise, replace, touch"),
        ({"dedupe": 5}, r"dedupe: must be True \(by arguments\) or a key"),
        ({"limits": "gpu"}, r"limits: must be a tuple of names such as \('gpu',\)"),
        ({"limits": ("gpu", "gpu")}, "limits?.*: names one twice"),
        ({"limits": (5,)}, "limit.*: must be text"),
        ({"tags": {"a"}}, "tags: must be a tuple of names"),
        ({"tags": 10**5_000}, "tags: must be a tuple of names .*got a number of 16610 bits"),
        ({"run_at": 10**5_000}, "run_at: must be a datetime with a time zone, got a number of 16610 bits"),
        ({"delay": 10**5_000}, "delay: a number of 16610 bits is longer than a thousand years"),
        ({"tags": ("",)}, "tags: must not be empty"),
        ({"headers": {"a": 5}}, "headers: must be text"),
        ({"headers": ["a"]}, "headers: must be a dict"),
        ({"headers": {5: "a"}}, "headers: must be text"),
        ({"queue": ""}, "queue: must not be empty"),
        ({"queue": None}, "queue: must be text"),
        ({"queue": ["mail"]}, "queue: must be text"),
        ({"queue": "a\nb"}, "queue: .*cannot be printed"),
        ({"queue": "q" * 201}, "queue: is 201 characters long, the limit is 200"),
        ({"org_id": 5}, "org_id: must be text"),
        ({"org_id": ""}, "org_id: must not be empty"),
        ({"id": ""}, "id: must be text and not empty"),
        ({"id": 5}, "id: must be text and not empty"),
        ({"idempotency_key": 5}, "idempotency_key: must be text"),
        ({"idempotency_key": "k" * 1_001}, "idempotency_key: .*hash what is longer"),
        ({"idempotency_key": "k", "idempotency_scope": "world"}, "idempotency_scope: must be one of type, queue, org"),
        ({"idempotency_key": "k", "idempotency_for": "-1s"}, "idempotency_for: .*is not a duration"),
        ({"idempotency_key": "k", "idempotency_for": -1}, "idempotency_for: must not be negative"),
    ],
)
def test_bad_options_are_named_before_anything_is_stored(app: Windlass, options: Any, says: str) -> None:
    send = declare(app)
    with pytest.raises(InvalidInput, match=says):
        send.using(**options)
    shared = {name: value for name, value in options.items() if name in ("queue", "priority", "timeout", "retry", "tags")}
    if shared:
        with pytest.raises(InvalidInput, match=says):
            declare(app, name="another", **shared)
        assert "another" not in app.tasks
    assert nothing_stored(app)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"colour": "red"}, r"colour: is not an option of task\(...\)"),
        ({"retires": 3}, "retires: is not an option of task.*did you mean 'retry'"),
        ({"delay": "5m"}, r"delay: is not an option of task\(...\)"),
        ({"history": "successes"}, "history: must be one of failures, full"),
        ({"run": "fork"}, "run: must be 'async', 'thread' or 'process', got 'fork'"),
        ({"run": "thread"}, "run: .*is an async function and runs in the event loop; leave run out"),
        ({"ack": "never"}, "ack: must be 'batched' or 'sync'"),
        ({"name": ""}, "name: must not be empty"),
        ({"name": 5}, "name: must be text"),
    ],
)
def test_bad_options_of_a_task_are_named_when_it_is_declared(app: Windlass, options: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        declare(app, **options)
    assert app.tasks == {}


def test_a_batch_has_one_connection_not_one_per_job(app: Windlass) -> None:
    send = declare(app)
    with pytest.raises(InvalidInput, match=r"enqueue_many\(jobs, conn=...\)"):
        send.using(conn=object()).job("ada")


# --------------------------------------------------------------------------------------------------------- declarations


def test_what_cannot_be_a_task_is_refused(app: Windlass) -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def async_numbers() -> AsyncIterator[int]:
        yield 1

    def plain() -> None: ...

    def no_context() -> None: ...

    def opaque(thing: Opaque) -> None: ...

    def path(where: Path) -> None: ...

    def forgotten(ctx: Context, n: int) -> None: ...

    refused: list[tuple[Any, dict[str, Any], str]] = [
        (numbers, {}, "numbers is a generator; a task returns its result"),
        (async_numbers, {}, "async_numbers is a generator"),
        (5, {}, "decorates a function, got 5"),
        ("send", {}, "decorates a function, got 'send'"),
        (plain, {"run": "async"}, "plain is a plain function; .*use run='thread'"),
        (no_context, {"context": True}, r"no first parameter to take it; write def no_context\(ctx: Context"),
        (opaque, {}, "thing: opaque: a Opaque cannot be made from JSON"),
        (path, {}, "where: path: a Path cannot be made from JSON; use str"),
        (forgotten, {}, "ctx: .*use context=True in the decorator"),
        (lambda: None, {}, "name"),
        (current, {"name": "x" * 201}, "name: is 201 characters long"),
    ]
    for function, options, says in refused:
        with pytest.raises(InvalidInput, match=says):
            app.task(**options)(function)
        if not options:
            with pytest.raises(InvalidInput, match=says):
                app.task(function)
    assert app.tasks == {}


def test_two_tasks_cannot_have_one_name(app: Windlass) -> None:
    send = declare(app)
    with pytest.raises(InvalidInput, match=r"'send' is already the task .*declare.*send; .*@app.task\(name='send_2'\)"):
        declare(app)
    assert app.tasks["send"] is send


def test_a_task_of_another_name_is_not_found_with_a_hint(app: Windlass) -> None:
    declare(app)
    with pytest.raises(UnknownTask, match=r"no task is called 'sent' here \(did you mean 'send'\?\); import the module"):
        app.find_task("sent")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda app: app.queue("q", ageing=-HUGE), "ageing"),
        (lambda app: app.queue("q", ageing=("10m", HUGE)), "ageing"),
        (lambda app: app.limit("k", -HUGE), "limit"),
        (lambda app: app.worker(concurrency=-HUGE), "concurrency"),
        (lambda app: app.enqueue_many_sync([HUGE]), "jobs"),
        (lambda app: app.enqueue_many_sync(HUGE), "jobs"),
        (lambda app: app.job("j").cancel_sync(HUGE), "reason"),
        (lambda app: app.job(HUGE), "id"),
    ],
)
def test_a_number_that_python_does_not_write_out_is_told_in_few_words(
    app: Windlass, call: Callable[[Windlass], object], says: str
) -> None:
    declare(app)
    with pytest.raises(InvalidInput, match=f"^{says}: .*got a number of 16610 bits"):
        call(app)


def test_a_queue_is_described_before_its_tasks(app: Windlass) -> None:
    declare(app, queue="mail")
    with pytest.raises(InvalidInput, match="describe 'mail' before the tasks that use it"):
        app.queue("mail", preset="harmonyk")
    assert app.client.declared == []


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda app: app.queue(""), "queue: must not be empty"),
        (lambda app: app.queue(5), "queue: must be text"),
        (lambda app: app.queue("q", preset="harmonik"), "preset: .*did you mean 'harmonyk'"),
        (lambda app: app.queue("q", positions="sparse"), "positions: must be one of dense, tail"),
    ],
)
def test_a_bad_queue_is_refused_where_it_is_described(app: Windlass, call: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        call(app)
    assert app.client.declared == []


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Retry(max_attempts=1, max_retries=1), "not both"),
        (lambda: Retry(max_retries=-1), "must be 0 or more"),
        (lambda: Retry(max_retries="3"), "must be 0 or more, got '3'"),  # type: ignore[arg-type]
        (lambda: Retry(max_attempts=2.5), "must be 0 .no limit. or more, got 2.5"),  # type: ignore[arg-type]
        (lambda: Retry(backoff="5s"), "backoff: must be made by fixed"),  # type: ignore[arg-type]
        (lambda: Retry(rules=rule(ValueError, dead=True)), "rules: must be a tuple"),  # type: ignore[arg-type]
        (lambda: rule(ValueError, backoff="5s"), "backoff: must be made by fixed"),  # type: ignore[arg-type]
        (lambda: rule(ValueError("no")), "takes exception classes"),  # type: ignore[arg-type]
        (lambda: Retry(jitter="some"), "must be none, full or equal"),  # type: ignore[arg-type]
        (lambda: exponential("1s", factor=0.5), "factor"),
        (lambda: rule(), "name at least one exception"),
        (lambda: Snooze(-1), "delay: must not be negative"),
        (lambda: Snooze("later"), "delay: 'later' is not a duration"),
        (lambda: RetryAfter(None), "delay: None is not a duration"),  # type: ignore[arg-type]
    ],
)
def test_bad_policies_and_signals_are_refused_where_they_are_made(make: Callable[[], object], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        make()


def test_a_snooze_below_no_job_is_only_an_exception() -> None:
    with pytest.raises(NoCurrentJob, match="outside of a running job"):
        current()


# ---------------------------------------------------------------------------------------------------------------- many


@pytest.mark.parametrize("wrong", [5, "send", None, ("ada",), object()])
def test_enqueue_many_takes_prepared_jobs_only(app: Windlass, wrong: Any) -> None:
    send = declare(app)
    for call in (lambda jobs: asyncio.run(app.enqueue_many(jobs)), app.enqueue_many_sync):
        with pytest.raises(InvalidInput, match=r"jobs: takes what task.job\(...\) makes"):
            call([send.job("ada"), wrong])
    assert nothing_stored(app)


@pytest.mark.parametrize("wrong", [5, None, object()])
def test_enqueue_many_takes_something_to_loop_over(app: Windlass, wrong: Any) -> None:
    for call in (lambda jobs: asyncio.run(app.enqueue_many(jobs)), app.enqueue_many_sync):
        with pytest.raises(InvalidInput, match=r"jobs: takes what task.job\(...\) makes"):
            call(wrong)


def test_enqueue_many_given_one_job_or_a_task_says_so(app: Windlass) -> None:
    send = declare(app)
    for wrong in (send.job("ada"), send, [send], [send.enqueue]):
        with pytest.raises(InvalidInput, match=r"jobs: takes what task.job\(...\) makes"):
            app.enqueue_many_sync(wrong)
    assert nothing_stored(app)


# ---------------------------------------------------------------------------------------------------------- connections


def test_a_blocking_connection_is_sent_to_enqueue_sync(app: Windlass) -> None:
    send = declare(app)
    own = sqlite3.connect(":memory:")
    for call in (
        lambda: send.using(conn=own).enqueue("ada"),
        lambda: app.enqueue_many([send.job("ada")], conn=own),
    ):
        with pytest.raises(TypeError, match=r"enqueue_sync\(\)"):
            asyncio.run(call())
    own.close()
    assert nothing_stored(app)


def test_a_store_that_shares_no_connection_names_the_way_out(place: Place, app: Windlass, tmp_path: Path) -> None:
    send = declare(app)
    own = sqlite3.connect(tmp_path / "other.db")
    says = "use sqlite://" if place.kind == "memory" else 'sqlite="stdlib"'
    with pytest.raises(WrongConnection, match=says):
        send.using(conn=own).enqueue_sync("ada")
    own.close()
    assert nothing_stored(app)


def test_a_connection_to_another_file_or_of_another_kind_is_refused(file_place: Place, tmp_path: Path) -> None:
    app = file_place.app(sqlite="stdlib")
    send = declare(app)
    asyncio.run(rows(app))
    other = sqlite3.connect(tmp_path / "other.db")
    autocommit = sqlite3.connect(file_place.file, isolation_level=None)
    for conn, says in (
        (other, "two files are never atomic together"), (object(), "a sqlite3.Connection is needed, got object"),
        (autocommit, "begin immediate"), (5, "a sqlite3.Connection is needed"),
    ):  # fmt: skip
        with pytest.raises(WrongConnection, match=says):
            send.using(conn=conn).enqueue_sync("ada")
        with pytest.raises(WrongConnection, match=says):
            app.enqueue_many_sync([send.job("ada")], conn=conn)
    other.close()
    autocommit.close()
    assert nothing_stored(app)


# ------------------------------------------------------------------------------------------------------------- the rest


@pytest.mark.parametrize("url", ["redis://localhost", "sqlite:", "sqlite://jobs.db", "jobs.db", "sqlite://", "sqlite:///"])
def test_a_bad_url_names_the_good_ones_where_it_is_given(url: str) -> None:
    with pytest.raises(UnknownStore, match=r"use one of memory://, sqlite:///jobs.db"):
        Windlass(url)


@pytest.mark.parametrize("url", [5, b"memory://", Path("jobs.db")])
def test_a_url_is_text(url: Any) -> None:
    with pytest.raises(InvalidInput, match=r"url: must be text such as 'sqlite:///jobs.db'"):
        Windlass(url)


@pytest.mark.parametrize("limit", [0, -1, 1.5, "ten", True, None])
def test_a_tick_has_a_whole_limit(app: Windlass, limit: Any) -> None:
    declare(app)
    with pytest.raises(InvalidInput, match="limit: must be a whole number of at least 1"):
        asyncio.run(app.tick(limit))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": "many"}, "concurrency"),
        ({"threads": -1}, "threads"),
        ({"max_jobs": 0}, "max_jobs"),
        ({"queues": "mail"}, "queues"),
        ({"queues": ["mail", 5]}, "queue"),
        ({"worker_id": 5}, "worker_id"),
    ],
)
def test_a_worker_refuses_nonsense_before_it_claims(app: Windlass, options: Any, says: str) -> None:
    declare(app)
    with pytest.raises(InvalidInput, match=says):
        app.worker(**options)


def test_a_worker_without_tasks_says_what_is_missing(app: Windlass) -> None:
    with pytest.raises(InvalidInput, match="this app has no tasks; declare one"):
        asyncio.run(app.tick())


def test_a_handle_refuses_nonsense(app: Windlass) -> None:
    send = declare(app)

    async def main() -> None:
        job = await send.enqueue("ada")
        before = await job.fetch()
        nonsense: list[tuple[Callable[[], Any], str]] = [
            (lambda: job.result(timeout=-1), "timeout: must not be negative"),
            (lambda: job.result(timeout="soon"), "timeout: 'soon' is not a duration"),
            (lambda: job.move("middle"), "to: must be one of bottom, top"),
            (lambda: job.move_beside(job, "before"), "other_id: is the job itself"),
            (lambda: job.swap(job.id), "other_id: is the job itself"),
            (lambda: job.swap(7), "other: must be a job or its id"),
            (lambda: job.set_priority("high"), "priority: must be a whole number"),
            (lambda: job.set_priority(2**40), "priority: must be a whole number"),
            (lambda: job.words("celery"), "system: 'celery' has no words here"),
            (lambda: job.cancel(5), "reason: must be text"),
        ]
        for call, says in nonsense:
            with pytest.raises(InvalidInput, match=says):
                await call()
        assert await job.fetch() == before

    asyncio.run(main())


@pytest.mark.parametrize("job_id", [5, None, b"x", ["a"]])
def test_a_job_is_looked_for_by_text(app: Windlass, job_id: Any) -> None:
    with pytest.raises(InvalidInput, match="id: must be text"):
        app.job(job_id)


@pytest.mark.parametrize("job_id", ["nobody", "x" * 5_000, "\ud800", "a\x00b"])
def test_a_job_that_is_not_there_is_not_found(app: Windlass, job_id: str) -> None:
    declare(app)

    async def main() -> None:
        for call in (app.job(job_id).fetch, app.job(job_id).result, app.job(job_id).cancel, app.job(job_id).retry):
            with pytest.raises((JobNotFound, InvalidInput)):
                await call()

    asyncio.run(main())


def test_the_repository_refuses_nonsense(app: Windlass) -> None:
    repository: Any = app.repository
    naive = datetime(2030, 1, 1)  # noqa: DTZ001
    nonsense: list[tuple[Callable[[], Any], str]] = [
        (lambda: repository.enqueue(""), "type: must not be empty"),
        (lambda: repository.enqueue(5), "type: must be text"),
        (lambda: repository.enqueue("t", org_id=5), "org_id: must be text"),
        (lambda: repository.enqueue("t", run_at=naive), "run_at: .*has no time zone"),
        (lambda: repository.enqueue("t", run_at="soon"), "run_at: must be a datetime"),
        (lambda: repository.enqueue("t", payload=[1]), "payload: must be a mapping"),
        (lambda: repository.enqueue("t", payload="text"), "payload: must be a mapping"),
        (lambda: repository.enqueue("t", payload={"a": Opaque()}), "payload: cannot be written as JSON"),
        (lambda: repository.enqueue("t", payload={"a": float("nan")}), "payload: cannot be written as JSON"),
        (lambda: repository.enqueue("t", payload={"a": "\ud800"}), "payload: "),
        (lambda: repository.enqueue("t", payload={"a": "x" * 10 * MEGABYTE}), "payload: is 10,485,7.*store a reference"),
        (lambda: repository.claim(limit=0), "limit: must be between 1 and"),
        (lambda: repository.claim(queues=[]), "queues: give a non-empty sequence"),
        (lambda: repository.claim(queues="mail"), "queues"),
    ]
    for call, says in nonsense:
        with pytest.raises(InvalidInput, match=says):
            asyncio.run(call())
    assert nothing_stored(app)


def test_every_error_is_ours(app: Windlass) -> None:
    """So that `except WindlassError` catches all of it."""
    assert issubclass(InvalidInput, WindlassError)
    assert issubclass(WrongConnection, WindlassError)
    assert issubclass(UnknownStore, WindlassError)
