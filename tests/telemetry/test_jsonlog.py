"""Log lines as JSON: one object each, with the job that they are about."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from windlass import Context, Retry, Secret
from windlass.telemetry.jsonlog import JsonLines
from worker.stage import Stage, on_stage

program = logging.getLogger("shop")


class Lines:
    def __init__(self) -> None:
        self._text = io.StringIO()
        self.handler = logging.StreamHandler(self._text)
        self.handler.setFormatter(JsonLines("me"))

    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._text.getvalue().splitlines()]

    def one(self, event: str) -> dict[str, Any]:
        [found] = [line for line in self.all() if event in line["event"]]
        return found


@pytest.fixture
def lines() -> Iterator[Lines]:
    made = Lines()
    loggers = (program, logging.getLogger("windlass"))
    usual = [(logger, logger.level) for logger in loggers]
    for logger in loggers:
        logger.addHandler(made.handler)
        logger.setLevel(logging.INFO)
    yield made
    for logger, level in usual:
        logger.removeHandler(made.handler)
        logger.setLevel(level)


@pytest.mark.parametrize("run", ["async", "thread"])
def test_what_a_handler_says_names_its_job(lines: Lines, run: str) -> None:
    async def play(stage: Stage) -> None:
        if run == "async":

            @stage.app.task(name="pay", queue="bills")
            async def pay() -> None:
                await asyncio.sleep(0)
                program.info("paid %d", 7, extra={"amount": 7})
        else:

            @stage.app.task(name="pay", queue="bills")
            def pay() -> None:
                program.info("paid %d", 7, extra={"amount": 7})

        program.info("before")
        trace = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
        job = await stage.app.tasks["pay"].using(org_id="acme", headers=trace).enqueue()
        await stage.drain()
        line = lines.one("paid 7")
        names = ("level", "logger", "worker", "job_id", "task", "queue", "attempt", "org")
        assert {name: line[name] for name in names} == {
            "level": "info", "logger": "shop", "worker": "me", "job_id": job.id, "task": "pay", "queue": "bills",
            "attempt": 1, "org": "acme",
        }  # fmt: skip
        assert (line["trace_id"], line["amount"]) == ("a" * 32, 7)
        assert line["ts"].endswith("+00:00")
        assert "job_id" not in lines.one("before")

    on_stage("memory://", play)


def test_what_a_worker_says_of_a_job_names_it(lines: Lines) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task(retry=Retry(max_retries=0))
        async def work() -> None:
            raise ValueError("boom")

        job = await work.enqueue()
        await stage.drain()
        line = lines.one("is dead")
        assert (line["job_id"], line["level"], line["task"]) == (job.id, "warning", work.name)

    on_stage("memory://", play)


def test_an_exception_is_part_of_its_line(lines: Lines) -> None:
    try:
        raise KeyError("x")
    except KeyError:
        program.exception("no\nluck")
    [line] = lines.all()
    assert (line["event"], line["error"]) == ("no\nluck", "KeyError")
    assert "Traceback" in line["traceback"]


def test_what_cannot_be_json_is_told_in_words(lines: Lines) -> None:
    program.info("odd", extra={"what": object(), "text": "\ud800"})
    [line] = lines.all()
    assert line["what"].startswith("<object")


def test_what_has_no_end_is_told_as_far_as_it_goes(lines: Lines) -> None:
    inner: dict[str, Any] = {"n": 1}
    inner["self"] = inner
    program.info("circling", extra={"inner": inner})
    assert lines.one("circling")["inner"] == "{'n': 1, 'self': {...}}"


def test_what_arguments_keep_secret_is_in_no_line(lines: Lines) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task(context=True)
        async def login(ctx: Context, password: Secret[str]) -> None:
            shown = password.reveal()
            beside = {"deep": {"list": [f"is {shown}"]}, "why": ValueError(shown), "odd": {(1,): shown}}
            program.info("with %s", shown, extra=beside)

        await login.enqueue(Secret("canary-4711"))
        await stage.drain()
        assert "canary-4711" not in json.dumps(lines.all())
        assert "with" in lines.one("with ")["event"]

    on_stage("memory://", play)
