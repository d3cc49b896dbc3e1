"""Dead jobs in Sentry: through the real SDK, as far as its transport."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.logging import LoggingIntegration
from sentry_sdk.transport import Transport

from windlass import Reject, Secret
from windlass.telemetry.sentry import report_dead_jobs
from worker.stage import Stage, on_stage


@pytest.fixture
def sent() -> Iterator[list[Any]]:
    found: list[Any] = []

    class Kept(Transport):
        def capture_envelope(self, envelope: Envelope) -> None:
            found.append(envelope.get_event())

    sentry_sdk.init(
        dsn="https://key@localhost/1", transport=Kept, default_integrations=False, integrations=[LoggingIntegration()]
    )  # as everybody has it: lines of errors are events, with all that is beside them
    yield found
    sentry_sdk.get_client().close(timeout=0)
    sentry_sdk.init(default_integrations=False)


def test_a_job_that_is_dead_is_one_event_however_often_it_was_tried(sent: list[Any]) -> None:
    async def play(stage: Stage) -> None:
        report_dead_jobs(stage.app)

        @stage.app.task(name="pay", queue="bills")
        async def pay(n: int, password: Secret[str]) -> None:
            if n == 0:
                raise ValueError(f"boom: {password.reveal()}")
            if n == 1:
                raise Reject("not for us: ever")

        jobs = [await pay.using(org_id="acme").enqueue(n, Secret("canary-4711")) for n in range(3)]
        await stage.drain()
        assert len(sent) == 2
        by_job = {event["contexts"]["windlass"]["job_id"]: event for event in sent}
        failed, rejected = by_job[jobs[0].id], by_job[jobs[1].id]
        assert failed["exception"]["values"][0]["type"] == "ValueError"
        assert failed["fingerprint"] == ["windlass", "pay", "ValueError"]
        assert failed["tags"] == {"windlass.queue": "bills", "windlass.task": "pay"}
        about = failed["contexts"]["windlass"]
        assert (about["org"], about["execution"]) == ("acme", 3)
        assert "raise ValueError" in about["traceback"]
        assert rejected["exception"]["values"][0]["type"] == "Reject"
        assert "canary-4711" not in str(sent)

    on_stage("memory://", play)


def test_a_line_of_a_handler_takes_its_job_s_id_to_sentry_and_nothing_else_of_it(sent: list[Any]) -> None:
    async def play(stage: Stage) -> None:
        @stage.app.task(name="pay")
        async def pay(password: Secret[str], card: str) -> None:
            logging.getLogger("shop").error("the bank does not answer")

        job = await pay.enqueue(Secret("canary-4711"), "canary-4712")
        await stage.drain()
        [event] = sent
        assert event["extra"]["windlass_job"] == job.id
        assert "canary" not in str(sent)

    on_stage("memory://", play)


def test_a_record_that_travels_carries_no_arguments() -> None:
    """As handlers send them that pickle all that a record has."""
    records: list[bytes] = []

    class Sends(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(pickle.dumps(vars(record)))

    handler = Sends()
    logging.getLogger("shop").addHandler(handler)

    async def play(stage: Stage) -> None:
        @stage.app.task(name="pay")
        async def pay(card: str) -> None:
            logging.getLogger("shop").error("the bank does not answer")

        job = await pay.enqueue("canary-4712")
        await stage.drain()
        assert job.id.encode() in records[0]
        assert b"canary" not in records[0]

    try:
        on_stage("memory://", play)
    finally:
        logging.getLogger("shop").removeHandler(handler)
