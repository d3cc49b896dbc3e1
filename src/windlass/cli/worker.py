"""`windlass worker` and `windlass tick`: run jobs, for as long as it takes or once."""

from __future__ import annotations

import logging
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from typing import Literal

from windlass.app import Windlass
from windlass.cli.output import OK, STUCK, Output
from windlass.cli.session import Common, Flag, described, opened_app, passed_on, with_what_was_passed_on
from windlass.clock import duration
from windlass.config import check_count, check_leases
from windlass.errors import StoreError, WindlassError
from windlass.telemetry.jsonlog import JsonLines
from windlass.telemetry.measures import Measures
from windlass.telemetry.notify import announced, service_manager
from windlass.wording import in_words, named
from windlass.words import did_you_mean
from windlass.worker import Stats, Worker
from windlass.worker.probing import Probe, place_of
from windlass.worker.serving import serve
from windlass.worker.supervisor import (
    MISCONFIGURED,
    Supervisor,
    is_lasting,
    stopped_with_parent,
    supervised_place,
    supervised_worker_id,
)

LogFormat = Literal["text", "json"]
NAMED = 20  # queues or tasks that are told of by name
LINE = "%(asctime)s %(levelname)-7s %(message)s"


async def worker(
    app: str,
    /,
    *,
    queues: str | None = None,
    concurrency: int | None = None,
    threads: int | None = None,
    children: int | None = None,
    drain: Flag = False,
    processes: int = 1,
    grace: str | None = None,
    lease: str | None = None,
    metrics: str | None = None,
    log_format: LogFormat = "text",
    quiet: Flag = False,
    verbose: Flag = False,
    common: Common = Common(),
) -> int:
    """Be a worker until SIGTERM or Ctrl-C. The first lets handlers finish, the second interrupts them.

    A worker whose every slot is taken by a handler that does not stop ends with the exit code 75.

    Args:
        app: module:attribute, module, or a path to a .py file
        queues: names separated by commas; else every queue that the app's tasks use
        concurrency: async handlers at once
        threads: blocking handlers at once
        children: process handlers and commands at once
        drain: end when nothing is due and nothing runs
        processes: worker processes under one supervisor
        grace: how long handlers may finish after a stop, such as 30s
        lease: how long a silent worker keeps its jobs, such as 30s
        metrics: answer /metrics, /livez, /readyz at this port of 127.0.0.1, or at HOST:PORT; each process at the next
        log_format: text or json, one object a line
        quiet: only warnings
        verbose: everything
    """
    lines = log_to_stderr(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO, log_format)
    check_count("processes", processes)
    common = with_what_was_passed_on(common)
    address = None if metrics is None else place_of(metrics, offset=supervised_place() or 0)
    async with opened_app(app, common) as loaded:
        _settle(loaded, grace, lease)
        names = None if queues is None else _queues_in(queues, loaded, common.out)
        made = loaded.worker(
            queues=names, concurrency=concurrency, threads=threads, children=children, worker_id=supervised_worker_id(),
            measures=None if address is None else Measures(),
        )  # fmt: skip
        if isinstance(lines, JsonLines):
            lines.worker = made.id
        elif not quiet and supervised_worker_id() is None:
            _introduce(loaded, made, (concurrency, threads, children), processes, common.out)
        if processes > 1:
            command = _child_command(
                app, queues=queues, concurrency=concurrency, threads=threads, children=children, drain=drain, grace=grace,
                lease=lease, metrics=metrics, log_format=log_format, quiet=quiet, verbose=verbose,
            )  # fmt: skip
            return await _supervise(loaded, command, processes, drain, common)
        return await _serve(made, drain, address, common.out)


async def _supervise(app: Windlass, command: list[str], processes: int, drain: bool, common: Common) -> int:
    await _check_store(app)
    manager = service_manager()
    patience = None if manager is None or manager.every is None else 2 * manager.every  # which is half of what is asked for
    supervisor = Supervisor(
        app.client, command, processes, drain=drain, environment=passed_on(common), patience=patience
    )  # fmt: skip
    async with announced(manager, supervisor.started, supervisor.stopping, f"{processes} processes"):
        code = await supervisor.run()
    if common.json:
        common.out.emit(processes=processes, exit_code=code)
    return code


async def _serve(made: Worker, drain: bool, address: tuple[str, int] | None, out: Output) -> int:
    supervised = supervised_worker_id() is not None
    status = f"serves {named(made.queues, NAMED)}"
    try:
        async with AsyncExitStack() as around:
            around.enter_context(stopped_with_parent(made))
            await around.enter_async_context(announced(service_manager(), made.started, made.stop_asked, status))
            if address is not None:
                await around.enter_async_context(Probe(made).listening(*address))
            stats = await serve(made, drain=drain)
    except StoreError as error:
        if supervised and is_lasting(error):
            return out.fail(str(error), None, MISCONFIGURED)
        raise
    _report(stats, out)
    return STUCK if made.all_stuck else OK


async def _check_store(app: Windlass) -> None:
    """What nobody but a person can mend is told once, not by every child. A store that is away may come back."""
    try:
        await app.client.ready()
    except WindlassError as error:
        if is_lasting(error):
            raise


async def tick(app: str, /, *, limit: int = 10, common: Common = Common()) -> None:
    """Claim what is due, run it here, settle it, and end: a worker for cron jobs and tests.

    Args:
        app: module:attribute, module, or a path to a .py file
        limit: claim at most this many jobs
    """
    log_to_stderr(logging.WARNING)
    async with opened_app(app, common) as loaded:
        _report(await loaded.tick(limit), common.out)


def _queues_in(listed: str, app: Windlass, out: Output) -> list[str] | None:
    """A queue that no task uses may be right, since a job can be put anywhere; more often it is a typing error."""
    names = [name.strip() for name in listed.split(",") if name.strip()]
    used = {task.queue for task in app.tasks.values()}
    for name in names:
        if name not in used:
            out.note(f"warning: no task of this app uses the queue {name!r}{did_you_mean(name, used)}")
    return names or None


def _settle(app: Windlass, grace: str | None, lease: str | None) -> None:
    settings = app.client.settings
    if grace is not None:
        settings = replace(settings, grace=duration(grace, field="grace"))
    if lease is not None:
        settings = replace(settings, lease=duration(lease, field="lease"))
        check_leases(settings)
    app.client.settings = settings


def _child_command(app: str, **options: object) -> list[str]:
    """The same command for one process. The answer is the supervisor's to give, so --json is not passed on."""
    command = [sys.executable, "-m", "windlass", "worker", app]
    for name, value in options.items():
        if value is True:
            command.append(f"--{name.replace('_', '-')}")
        elif value not in (None, False):
            command += [f"--{name.replace('_', '-')}", str(value)]
    return command


def _introduce(
    app: Windlass, made: Worker, sizes: tuple[int | None, int | None, int | None], processes: int, out: Output
) -> None:
    settings = app.client.settings
    runs = {task.run for task in app.tasks.values()}
    concurrency, threads, children = sizes
    slots = [f"{concurrency or settings.concurrency} async"] if "async" in runs else []
    slots += [f"{threads or settings.threads} threads"] if "thread" in runs else []
    slots += [f"{children or settings.children} child processes"] if "process" in runs else []
    out.note(f"store   {described(app.client.url)}")
    out.note(f"queues  {named(made.queues, NAMED)}")
    out.note(f"tasks   {named(sorted(app.tasks), NAMED)}")
    out.note(f"slots   {' and '.join(slots)}" + (f" in each of {processes} processes" if processes > 1 else ""))
    out.note(f"stop    Ctrl-C lets handlers finish within {in_words(settings.grace)}; again interrupts them")


def _report(stats: Stats, out: Output) -> None:
    numbers = asdict(stats)
    if out.json:
        out.emit(numbers)
        return
    told = [f"{name.replace('_', ' ')} {count:,}" for name, count in numbers.items() if count]
    out.line(", ".join(told) or "nothing was due")


def log_to_stderr(level: int, log_format: LogFormat = "text") -> logging.Formatter:
    """As text, what we say. As JSON, what the program says as well: a line that is none breaks whoever reads them."""
    lines = JsonLines() if log_format == "json" else logging.Formatter(LINE, "%H:%M:%S")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(lines)
    if log_format == "json":
        root = logging.getLogger()
        root.handlers[:] = [handler]
        root.setLevel(level)
    log = logging.getLogger("windlass")
    log.handlers[:] = [handler]
    log.setLevel(level)
    log.propagate = False
    return lines
