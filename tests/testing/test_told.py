"""Seeds in which somebody listens: each end leaves one event, and each event arrives, whatever happens to the senders."""

from __future__ import annotations

import pytest

from windlass.testing.simulator.real import real_worker
from windlass.testing.simulator.run import Campaign

TOLD = 8  # every eighth seed has a webhook, beginning with the fifth


@pytest.mark.parametrize("profile", ["calm", "crashes", "network", "stops", "clocks", "storm", "swarm"])
def test_everything_that_ends_is_told(profile: str) -> None:
    campaign = Campaign(real_worker, profile=profile, store="memory")
    for seed in (5, 13, 21, 29, 37, 69):
        assert seed % TOLD == 5
        campaign.run(seed)
    assert not campaign.failed, campaign.failed[0]


@pytest.mark.parametrize(
    "seed", [229], ids=["who held a queue recovered a job and told nobody"]
)  # fmt: skip
def test_a_seed_that_once_failed_does_not_fail_again(seed: int) -> None:
    campaign = Campaign(real_worker, profile="swarm", store="memory")
    campaign.run(seed)
    assert not campaign.failed, campaign.failed[0]


@pytest.mark.full
def test_the_same_is_told_on_sqlite() -> None:
    campaign = Campaign(real_worker, profile="swarm", store="sqlite")
    for seed in (5, 13):
        campaign.run(seed)
    assert not campaign.failed, campaign.failed[0]
