"""The line between a worker and its children: whatever comes over it, it is the job's whose handler said it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from . import isolated as tasks
from .isolated import Ground, on_ground

# -------------------------------------------------------------------------------------------- programs that stop in order


@pytest.mark.parametrize(
    ("why", "state", "says"),
    [
        ("timeout", "dead", "TimeoutError: it ran longer than its timeout of 1 s"),
        ("cancel", "cancelled", "not wanted"),
        ("shutdown", "queued", ""),
    ],
)
def test_a_program_that_was_told_to_stop_and_ends_in_order_has_not_done_its_work(
    tmp_path: Path, why: str, state: str, says: str
) -> None:
    """Exit code 0 after a SIGTERM is how well-behaved programs stop half-way, and no success."""

    async def play(ground: Ground) -> None:
        gate = tmp_path / "gate"
        options: Any = {"timeout": "1s"} if why == "timeout" else {}
        job = await tasks.polite.using(**options).enqueue(gate=str(gate))
        async with ground.working(children=1):
            await ground.until(Path(f"{gate}.begun").exists)
            if why == "cancel":
                await job.cancel("not wanted")
            if why != "shutdown":
                await ground.until_state(job.id, "dead", "cancelled", "succeeded")
        row, run = await ground.fetch(job.id), await ground.run(job.id)
        assert (row.state, row.last_error, run.exit_code) == (state, says, 0)

    on_ground(tmp_path, play, lease="600ms", grace="100ms", kill_after="10s")
