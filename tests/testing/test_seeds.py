"""The real worker under faults: seeds that once failed, a fixed set, and as many of the next ones as there is time for.

Each of the first kind broke a rule while the bug that it names was in the code. A seed is a story only as long as the
simulator tells it the same way: whoever changes what is drawn from a seed hunts for them anew, by planting the bugs again
(`tests/mutants.py` has them) and running a campaign over each.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import pytest

from windlass.clock import SECOND, since_boot
from windlass.testing.simulator.real import real_worker
from windlass.testing.simulator.run import Campaign
from windlass.testing.simulator.scenario import StoreName, simulate

# A test must judge the change and not the day, so the seeds are the same ones each time. Unseen ones: `make simulate`.
SECONDS: Final = float(os.environ.get("WINDLASS_SIM_SECONDS", "10"))
FIRST: Final = int(os.environ.get("WINDLASS_SIM_FIRST", "100000"))

ONCE_FAILED: Final = {
    0: "acknowledged before the handler ran; recovery that left never-twice jobs behind, or did not name the lapsed lease",
    1: "a worker that was told to stop claimed on",
    2: "a handler that was cancelled counted as failed",
    3: "more ran than all queues together may give; the turn of an org was passed over",
    5: "a rate let more through than there were tokens",
    8: "a worker beat too rarely, and was removed alive",
    12: "jobs of an org that was paused were begun",
    15: "a leader that could not renew went on acting beside the next one",
    67: "an outcome was dropped when the store could not be reached",
    71: "a claim whose answer came after its lease was begun",
    97: "a job handed back by a worker that stopped had spent an attempt",
    102: "a wish to cancel was not heard",
    212: "an org that had been idle was served for what it had missed",
    217: "a duty was done under an epoch that had ended",
    374: "the claimer slept for ever: nobody told it that the store could be written again",
    1023: "a handler ran on beside its successor, because its worker did not stop it when it could not renew",
    3967: "a worker that was told to stop while it made itself heard claimed on",
    7535: "two whose clocks differ let a job through and parked it again, for ever",
    1003473: "a worker whose clock was ahead took a job back at each look, its owner claimed it again at once, for ever",
    3037538: "a heartbeat that arrived after a later one made its worker look silent, and cost it the lease of a job",
    5003304: "a leader that was out of the registry took the answer that it leads still for more time, beside the next one",
    202611199426: "a worker whose clock stood, because it had been ahead, looked for a job without a pause",
    5054595: "the judge blamed a repeated call for the end of another job of its batch, which stopped the group of both",
}  # fmt: skip


def assert_every_rule_holds(seed: int, profile: str = "swarm", store: StoreName = "memory") -> None:
    campaign = Campaign(real_worker, profile=profile, store=store)
    campaign.run(seed)
    assert not campaign.failed, campaign.failed[0]


@pytest.mark.parametrize("seed", ONCE_FAILED)
def test_a_seed_that_once_failed_does_not_fail_again(seed: int) -> None:
    assert_every_rule_holds(seed)


@pytest.mark.parametrize("profile", ["calm", "crashes", "network", "stops", "clocks", "storm", "swarm"])
def test_the_real_worker_keeps_every_rule(profile: str) -> None:
    for seed in range(40):
        assert_every_rule_holds(seed, profile)


def test_the_real_worker_tells_the_same_story_on_sqlite() -> None:
    for seed in range(12):
        memory, sqlite = simulate(seed, real_worker).history, simulate(seed, real_worker, store="sqlite").history
        assert sqlite.violation is None
        assert sqlite.digest() == memory.digest(), f"seed {seed} tells another story on another store"


def test_the_real_worker_keeps_every_rule_in_as_many_seeds_as_there_is_time_for(
    record_property: Callable[[str, object], None],
) -> None:
    """Each seventh seed on SQLite."""
    seed = FIRST
    began = since_boot()
    while since_boot() - began < SECONDS * SECOND:
        assert_every_rule_holds(seed, store="memory" if seed % 7 else "sqlite")
        seed += 1
    record_property("simulator", f"seeds {FIRST}:{seed}")
