"""The check of the demo can fail. That it passes, from the wheel, is seen in tests/installed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from windlass import Windlass
from windlass.demo.check import compare


async def played(log: Path) -> tuple[Windlass, list[str]]:
    """Two ledger jobs, run as the demo runs them, with their log."""
    app = Windlass("memory://")

    @app.task(queue="ledger")
    async def transfer() -> None:
        pass

    jobs = await app.enqueue_many([transfer.job(), transfer.job()])
    await app.worker().run(drain=True)
    lines = []
    for job in jobs:
        [run] = await job.runs()
        lines += [f"start ledger {job.id} {run.run_id} 1", f"done ledger {job.id} {run.run_id} 1"]
    log.write_text("\n".join(lines))
    return app, [job.id for job in jobs]


@pytest.mark.parametrize(
    ("tamper", "complaint"),
    [
        (lambda lines, ids: (lines, ids), None),
        (lambda lines, ids: (lines, [*ids, "gone"]), "was accepted and is gone"),
        (lambda lines, ids: (lines[:1] + lines[2:], ids), "its log says otherwise"),
        (lambda lines, ids: ([lines[0], *lines], ids), "must never start twice"),
        (lambda lines, ids: ([*lines, f"start ledger {ids[0]} other-run 1"], ids), "the store does not know"),
    ],
)
def test_the_demo_s_check_notices_what_does_not_agree(tamper, complaint, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    async def scenario() -> list[str]:
        log = tmp_path / "log"
        app, ids = await played(log)
        lines, accepted = tamper(log.read_text().splitlines(), ids)
        log.write_text("\n".join(lines))
        return (await compare(app.client, accepted, log)).problems

    problems = asyncio.run(scenario())
    assert (problems == []) if complaint is None else any(complaint in problem for problem in problems)
