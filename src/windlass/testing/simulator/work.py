"""The jobs of a scenario: what their handlers will do, and every option drawn from the seed."""

from __future__ import annotations

from random import Random
from typing import Final, Literal

import msgspec
from msgspec import Struct

from windlass.clock import SECOND
from windlass.policies import Retry, fixed
from windlass.types import Micros, NewJob

Step = Literal["ok", "fail", "reject", "snooze", "poison"]
QUEUES: Final = ("a", "b")
PLAIN, CAREFUL = "plain", "careful"  # types of jobs: the careful ones hold permits, or must never run twice
GROUP: Final = "g"


class Plan(Struct, frozen=True):
    """What a handler does: one step per execution, the last one repeats."""

    number: int
    steps: tuple[Step, ...]
    ms: int


WELL: Final[tuple[Step, ...]] = ("ok",)
SHAPES: Final[tuple[tuple[Step, ...], ...]] = (
    WELL, WELL, WELL, WELL, WELL, WELL, WELL, WELL, WELL, WELL, WELL, WELL, ("fail", "ok"), ("fail", "ok"), ("fail",),
    ("snooze", "ok"), ("reject",), ("fail", "snooze", "fail", "ok"), ("poison", "ok"), ("poison",),
)  # fmt: skip


# Of handlers, in milliseconds. Long ones need several renewals, and each makes the whole seed longer.
LENGTHS: Final = (0, 0, 0, 0, 5, 5, 50, 50, 400, 400, 400, 2_000, 2_000, 2_000, 9_000, 14_000)
QUICK: Final = (0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 5, 5, 5, 50, 9_000)


def draw_job(rng: Random, name: str, plan: Plan, now: Micros) -> NewJob:
    never_twice = rng.random() < 0.25
    endless = plan.steps[-1] in ("fail", "poison")
    policies = (None, None, Retry(backoff=fixed(0)).encode(), Retry(backoff=fixed(5), jitter="full").encode())
    keyed = rng.random()
    limit_keys: tuple[str, ...] = rng.choice(((), (), (), ("l1",), ("l2",), ("l1", "l2"), ("l3",), ("l3", "l2")))
    return NewJob(
        id=name, type=CAREFUL if never_twice or limit_keys else PLAIN, queue=rng.choice(QUEUES),
        priority=rng.choice((0, 0, 0, 5, -5)),
        run_at=rng.choice((None, None, None, now + SECOND, now + 9 * SECOND)),
        max_attempts=rng.choice((1, 2, 4)) if endless else rng.choice((0, 1, 2, 4)),
        max_lost=rng.choice((1, 3)) if endless else rng.choice((0, 0, 3)),
        retry_mode="new_job" if never_twice else "same_job",
        crash_policy="fail" if never_twice or rng.random() < 0.1 else "requeue",
        retry_policy=rng.choice(policies),
        idempotency_scope="s" if keyed < 0.1 else None, idempotency_key=rng.choice("xyz") if keyed < 0.1 else None,
        dedupe_key=rng.choice("xyz") if keyed > 0.9 else None,
        on_duplicate=rng.choice(("ignore", "touch") if endless else ("ignore", "replace")),
        limit_keys=limit_keys, org_id=rng.choice((None, "o", "p")), group_id=GROUP if rng.random() < 0.3 else None,
        payload=msgspec.json.encode(plan),
        history="failures" if plan.number % 3 == 0 and not never_twice else "full",
    )  # fmt: skip
