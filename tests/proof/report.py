"""The evidence, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from windlass.testing.simulator.history import SOMETIMES

from .evidence import PARTS, SECOND, Evidence, Killed, Promise, Simulated
from .killed import WHY
from .storm import WORKERS
from .verdict import failures, of_a_promise

MOST = 20  # lines of a failure


def as_json(evidence: Evidence) -> str:
    found = failures(evidence)
    return (
        json.dumps(
            {"proved": not found and not evidence.left_out, "failures": found, **vars(evidence)}, default=vars, indent=1
        )
        + "\n"
    )


def as_markdown(evidence: Evidence) -> str:
    return "\n".join([
        "# Evidence", "",
        f"Windlass {evidence.version}, {evidence.date}, {evidence.machine}. Written by `make proof` in "
        f"{evidence.took:,.0f} s, of {evidence.budget:,.0f} s that it was given; what each promise says is on "
        f"[the page of the promises]({evidence.page}).", "",
        *_verdict(evidence), *_promises(evidence.promises), *_killed(evidence.killed), *_simulated(evidence.simulated),
        *_again(evidence),
    ])  # fmt: skip


def table(head: Sequence[object], rows: Iterable[Sequence[object]], *, numbers_from: int = 1) -> Iterator[str]:
    yield _row(head)
    yield _row(["---" if place < numbers_from else "---:" for place in range(len(head))])
    yield from map(_row, rows)
    yield ""


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells) + " |"


def _verdict(evidence: Evidence) -> Iterator[str]:
    found = failures(evidence)
    if evidence.left_out:
        yield f"**Only a part of the proof: left out were {', '.join(evidence.left_out)}.**"
        yield ""
    if found:
        yield f"**NOT PROVED, for {len(found)} reasons:**"
        yield ""
        yield from (f"- {_one_line(failure)}" for failure in found)
    else:
        yield f"**{' '.join(_held(evidence))}**"
    yield ""


def _held(evidence: Evidence) -> Iterator[str]:
    """Of a proof in which nothing is wrong: what held, as it was counted."""
    yield "Nothing that was tried failed." if evidence.left_out else "Every promise held."
    if evidence.promises:
        tests = [test for promise in evidence.promises for test in promise.tests]
        yield f"All {sum(test.cases for test in tests):,} cases of {len(tests):,} tests ran and passed."
    if evidence.killed:
        accepted = sum(one.accepted for one in evidence.killed)
        yield f"Of {accepted:,} jobs that were acknowledged while processes were killed and stopped none was lost."
    if evidence.simulated is not None:
        yield f"None of {evidence.simulated.totals['seeds']:,} simulated fleets broke a rule."


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _promises(promises: list[Promise]) -> Iterator[str]:
    if not promises:
        return
    tests = [test for promise in promises for test in promise.tests]
    yield "## The tests of each promise"
    yield ""
    yield (
        f"The tests that the page names, and no others: {len(tests):,} of them. They are counted by cases, one for each "
        f"store, fault or point of a worker's life: {sum(test.cases for test in tests):,} were found, among them "
        f"{sum(test.full for test in tests):,} that are marked `full`, which `make test` leaves out. A promise holds when "
        "every case of every test that it names ran and passed."
    )
    yield ""
    yield from table(
        ("promise", "held", "tests", "cases", "passed", "failed", "skipped", "not run"),
        map(_promise, promises),
        numbers_from=2,
    )
    for promise in promises:
        yield from _not_held(promise)


def _promise(promise: Promise) -> Sequence[object]:
    tests = promise.tests
    return (
        promise.title, "yes" if promise.holds else "**no**", len(tests), sum(test.cases for test in tests),
        sum(test.passed for test in tests), sum(len(test.failed) for test in tests),
        sum(len(test.skipped) for test in tests), sum(len(test.not_run) for test in tests),
    )  # fmt: skip


def _not_held(promise: Promise) -> Iterator[str]:
    """Why, and each case by its name."""
    if promise.holds:
        return
    yield from (f"- {_one_line(failure)}" for failure in of_a_promise(promise))
    for test in promise.tests:
        yield from (f"- not run: `{case}`" for case in test.not_run)
        yield from (
            f"- skipped: `{case.splitlines()[0]}`: {_one_line(case.partition(chr(10))[2])}" for case in test.skipped
        )
    yield ""
    for words in (words for test in promise.tests for words in test.failed):
        yield from ("```text", *words.splitlines()[-MOST:], "```", "")


def _killed(killed: list[Killed]) -> Iterator[str]:
    if not killed:
        return
    stores = [one.store for one in killed]
    yield "## Real processes under blows"
    yield ""
    yield (
        f"On {' and on '.join(f'{one.store} for {one.seconds:.0f} s' for one in killed)}: {WORKERS} workers and a producer "
        "that enqueues without pause. Dice chose who was hit when; a blow that hit less often than it must shows nothing. "
        "Then the rows of the store were held against what the handlers wrote down themselves."
    )
    yield ""
    yield from table(("blow", "at least", *stores), _blows(killed))
    yield from table(("came of it", *stores), _side_by_side([_facts(one) for one in killed]))
    yield from _why_again(killed)


def _blows(killed: list[Killed]) -> Iterator[Sequence[object]]:
    """Those that must hit, then what happened besides. A dash where a store knows no such blow."""
    for name in dict.fromkeys(name for one in killed for name in (*one.least, *one.hits)):
        least = max(one.least.get(name, 0) for one in killed)
        counts = (one.hits[name] if name in one.hits or name in one.least else "-" for one in killed)
        yield name, least or "", *counts


def _why_again(killed: list[Killed]) -> Iterator[str]:
    reasons = [f"- *{why}*: {meaning}." for why, meaning in WHY.items() if any(one.again[why] for one in killed)]
    if any(one.took_over for one in killed):
        reasons.append(
            "- *taken over*: the crash of a never-twice job was recorded as its failure, and a new job, with an id of its "
            "own, took its place."
        )
    if reasons:
        yield from ("Why work was begun again:", "", *reasons, "")


def _side_by_side(columns: Sequence[Mapping[str, object]]) -> Iterator[Sequence[object]]:
    for name in dict.fromkeys(name for column in columns for name in column):
        yield name, *(column.get(name, 0) for column in columns)


def _facts(one: Killed) -> dict[str, object]:
    return {
        "version of the server": one.server or "-", "seed": str(one.seed),
        "jobs acknowledged": one.accepted, "jobs in the store": one.jobs,
        **{f"of them {end}": one.ended[end] for end in sorted(one.ended)}, "executions": one.executions,
        **{f"again: {why}": one.again[why] for why in (*WHY, *sorted(one.again.keys() - WHY))},
        "of these, after work that was done": one.repeated, "taken over by a new job": one.took_over,
        "leases taken back": len(one.recoveries), "within, median": _seconds(median(one.recoveries or [0])),
        "within, slowest": _seconds(max(one.recoveries, default=0)), "promised: lease + 2 s": _seconds(one.bound),
        "store and log disagree": len(one.problems), "**lost**": len(one.lost),
    }  # fmt: skip


def _seconds(micros: float) -> str:
    return f"{micros / SECOND:.2f} s"


def _simulated(simulated: Simulated | None) -> Iterator[str]:
    if simulated is None:
        return
    yield "## Simulated fleets"
    yield ""
    yield (
        f"Seeds {simulated.first}:{simulated.last}, each a fleet of the worker that ships, on virtual time and on the "
        f"memory store; rules were checked after every call that reached it. {len(simulated.failed)} of "
        f"{simulated.totals['seeds']:,} seeds broke one."
    )
    yield ""
    yield from table(("what", "how often"), _counted(simulated.totals))
    yield from table(("fault that hit", "how often"), _counted(simulated.faults))
    yield f"Rare branches: {len(SOMETIMES) - len(simulated.never_reached)} of {len(SOMETIMES)} were reached."
    yield ""
    yield from table(("how often", "branch"), (
        ("**never**" if name in simulated.never_reached else f"{simulated.reached[name]:,}", meaning)
        for name, meaning in SOMETIMES.items()
    ), numbers_from=0)  # fmt: skip
    for told in simulated.failed:
        yield from ("```text", *told.splitlines(), "```", "")


def _counted(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items())


def _again(evidence: Evidence) -> Iterator[str]:
    yield from ("## Again", "", "```text")
    if evidence.left_out:
        parts = " ".join(part for part in PARTS if part not in evidence.left_out)
        yield f"PYTHONPATH=tests python -m proof --seconds {evidence.budget:g} --first {evidence.first} --parts {parts}"
    else:
        yield f"make proof SECONDS={evidence.budget:g} FIRST={evidence.first}"
    if evidence.simulated is not None:
        yield f"python -m windlass.testing.simulator --seeds {evidence.simulated.first}:{evidence.simulated.last}"
    yield from ("```", "")
    if evidence.simulated is not None:
        yield "A seed of the simulator replays to the byte."
    if evidence.killed:
        yield "What happens to real processes does not replay: a seed chooses who is hit, the machine does the rest."
    yield ""
