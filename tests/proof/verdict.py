"""What is wrong with the evidence: everything that keeps it from being a proof, in words. Nothing found is the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from .evidence import PARTS, SECOND, STORES, Evidence, Killed, Promise, Simulated
from .killed import UNEXPLAINED


def failures(evidence: Evidence) -> list[str]:
    found = [f"a part of the proof could not be done: {why}" for why in evidence.broken]
    found += of_what_left_nothing(evidence)
    for promise in evidence.promises:
        found += of_a_promise(promise)
    if evidence.simulated is not None:
        found += of_a_campaign(evidence.simulated)
    for killed in evidence.killed:
        found += [f"{killed.store}: {problem}" for problem in of_processes(killed)]
    return found


def of_what_left_nothing(evidence: Evidence) -> Iterator[str]:
    """A part that was asked for and is not there, whatever the reason."""
    there = {part for part, store in STORES.items() if store in {one.store for one in evidence.killed}}
    there |= {"tests"} if evidence.promises else set()
    there |= {"simulator"} if evidence.simulated is not None else set()
    yield from (f"{part}: left no evidence" for part in PARTS if part not in there and part not in evidence.left_out)


def of_a_promise(promise: Promise) -> Iterator[str]:
    if not promise.tests:
        yield f"{promise.title}: no test is named"
    for test in promise.tests:
        if not test.cases:
            yield f"{promise.title}: {test.test} was not found: nothing of that name was collected"
        told = ((test.failed, "FAILED"), (test.skipped, "skipped"), (test.not_run, "not run"))
        amiss = [f"{len(cases)} {what}" for cases, what in told if cases]
        if amiss:
            yield f"{promise.title}: {test.test}: of {test.cases} cases {', '.join(amiss)}"


def of_a_campaign(simulated: Simulated) -> Iterator[str]:
    if not simulated.totals["seeds"]:
        yield "simulator: no seed was tried"
    if simulated.never_reached:
        yield (
            f"simulator: {len(simulated.never_reached)} rare branches were never reached, so nothing is shown of them: "
            f"{', '.join(simulated.never_reached)}"
        )
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
    if not killed.least:
        yield "nothing says which blows had to hit"
    for blow, least in killed.least.items():
        if killed.hits[blow] < least:
            yield f"{blow}: hit {killed.hits[blow]} times, and less than {least} shows nothing"
    if not killed.recoveries:
        yield "nothing had to be recovered: that shows nothing"
