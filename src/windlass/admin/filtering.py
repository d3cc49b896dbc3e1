"""Which jobs a person means: states, labels and other systems' words become a query and a test of each row.

A store finds by columns; labels and words are computed from them. What is asked for therefore may be rarer than what is
read, so every search has a bound and says where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from windlass.admin.views import Filter
from windlass.admin.wording import fingerprint
from windlass.core.eligibility import label_of
from windlass.drivers.protocol import Driver, JobQuery
from windlass.errors import InvalidInput
from windlass.types import LABELS, STATES, Job, Micros, RunStatus, State
from windlass.words import did_you_mean, states_of, words_of

BITE: Final = 500
LOOKED_AT: Final = 20_000  # rows that one search reads at most

Test = Callable[[Job], bool]


async def search(
    driver: Driver, wanted: Filter, now: Micros, *, limit: int, before: int | None = None
) -> tuple[list[Job], int | None]:
    """At most `limit` jobs, newest first, and the cursor to go on from."""
    if limit < 1:
        raise InvalidInput("limit", f"must be at least 1, got {limit}")
    states, test = compiled(wanted, now)
    found: list[Job] = []
    for _ in range(LOOKED_AT // BITE):
        page = await driver.find(
            JobQuery(
                states=states, queues=(wanted.queue,) if wanted.queue else (), types=(wanted.type,) if wanted.type else (),
                org_id=wanted.org_id, before=before, limit=BITE if test is not None else min(limit - len(found), BITE),
            )
        )  # fmt: skip
        for job in page.jobs:
            if test is None or test(job):
                found.append(job)
                if len(found) == limit:
                    more = page.cursor is not None or job is not page.jobs[-1]
                    return found, job.seq if more else None
        before = page.cursor
        if before is None:
            break
    return found, before


def compiled(wanted: Filter, now: Micros) -> tuple[tuple[State, ...], Test | None]:
    states, tests = _by_state(wanted, now)
    if wanted.error is not None:
        error = wanted.error
        tests.append(lambda job: error in error_of(job) or fingerprint(error_of(job)) == error)
    if wanted.older_than is not None:
        until = now - wanted.older_than
        tests.append(lambda job: (job.finished_at or job.created_at) <= until)
    return states, (lambda job: all(test(job) for test in tests)) if tests else None


def _by_state(wanted: Filter, now: Micros) -> tuple[tuple[State, ...], list[Test]]:
    word, system = wanted.state, wanted.system
    if word is None:
        return (), []
    if word in STATES:
        return (word,), []
    if word in LABELS:
        state: State = "running" if word == "claimed" else "queued"
        return (state,), [lambda job: label_of(job, now) == word]
    if system is None:
        known = tuple(dict.fromkeys((*STATES, *LABELS)))
        hint = did_you_mean(word, known)
        raise InvalidInput("state", f"{word!r} is not a state{hint}; use one of {', '.join(known)}")

    def says(job: Job) -> bool:
        words = words_of(label_of(job, now), job.dead_kind, system, last_run_of(job))
        return word in (words.state, words.run)

    return tuple(sorted(states_of(word, system))), [says]


def last_run_of(job: Job) -> RunStatus | None:
    """How its last run ended, as far as the row tells; only a cancelled job leaves it open otherwise."""
    return "skipped" if job.state == "cancelled" and job.last_outcome == "cancelled" else None


def error_of(job: Job) -> str:
    return job.dead_reason or job.last_error
