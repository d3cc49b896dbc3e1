"""What is wrong with the evidence: everything that keeps it from being a proof, in words. Nothing found is the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from .evidence import SECOND, Evidence, Killed, Promise, Simulated
from .killed import UNEXPLAINED

ENOUGH_KILLS = 3  # with jobs in their hands; less is no proof of anything


def failures(evidence: Evidence) -> list[str]:
    found = [f"a part of the proof could not be done: {why}" for why in evidence.broken]
    for promise in evidence.promises:
        found += of_a_promise(promise)
    if evidence.simulated is not None:
        found += of_a_campaign(evidence.simulated)
    for killed in evidence.killed:
        found += [f"{killed.store}: {problem}" for problem in of_processes(killed)]
    return found


def of_a_promise(promise: Promise) -> Iterator[str]:
    if not promise.tests:
        yield f"{promise.title}: no test is named"
    for test in promise.tests:
        if test.failed:
            yield f"{promise.title}: {test.test} FAILED, {len(test.failed)} times of {test.passed + len(test.failed)}"
        elif not test.passed:
            yield f"{promise.title}: {test.test} was not run" + (", but skipped" if test.skipped else "")


def of_a_campaign(simulated: Simulated) -> Iterator[str]:
    if not simulated.totals["seeds"]:
        yield "simulator: no seed was tried"
    for told in simulated.failed:
        yield f"simulator: {told.splitlines()[0]}"


def of_processes(killed: Killed) -> Iterator[str]:
    if killed.lost:
        yield f"{len(killed.lost)} accepted jobs are LOST: {', '.join(killed.lost[:5])}"
    yield from killed.problems
    if killed.again[UNEXPLAINED]:
        yield f"{killed.again[UNEXPLAINED]} executions began again without a reason"
    late = [took for took in killed.recoveries if took > killed.bound]
    if late:
        yield (
            f"{len(late)} of {len(killed.recoveries)} recoveries took longer than {killed.bound / SECOND:g} s, "
            f"the slowest {max(late) / SECOND:.2f} s"
        )
    if killed.hits["kill -9 of a worker with jobs"] < ENOUGH_KILLS:
        yield "hardly a worker was killed with jobs in its hands: that shows nothing"
    if not killed.recoveries:
        yield "nothing had to be recovered: that shows nothing"
