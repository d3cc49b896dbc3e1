"""A campaign of the simulator: fresh seeds, as many as there is time for, on as many processes as there are cores."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from multiprocessing import get_context
from typing import Final

from windlass.clock import SECOND, since_boot
from windlass.testing.simulator.real import real_worker
from windlass.testing.simulator.run import Campaign
from windlass.testing.simulator.scenario import WorkerMain

from .evidence import Simulated

BITE: Final = 10  # seeds that a process goes through before anybody looks at the time
ENOUGH: Final = 3  # failing seeds


def run(first: int, seconds: float, worker: WorkerMain = real_worker) -> Simulated:
    campaign = Campaign(worker, profile="swarm", store="memory")
    cores, last, began = os.cpu_count() or 1, first, since_boot()
    bites = (range(start, start + BITE) for start in count(first, BITE))
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        under_way = deque((bite, pool.submit(campaign.part, bite)) for bite in islice(bites, cores))
        while under_way:
            bite, part = under_way.popleft()  # in the order of the seeds
            campaign.add(part.result())
            last = bite.stop
            if goes_on(campaign, (since_boot() - began) / SECOND, seconds):
                bite = next(bites)
                under_way.append((bite, pool.submit(campaign.part, bite)))
    return Simulated(
        first, last, campaign.totals, campaign.faults, campaign.seen, campaign.never_reached(), campaign.failed
    )


def goes_on(campaign: Campaign, took: float, seconds: float) -> bool:
    """Up to twice as long while a rare branch was never reached: that would be all that is wrong with it."""
    return len(campaign.failed) < ENOUGH and took < (2 * seconds if campaign.never_reached() else seconds)
