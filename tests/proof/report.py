"""The evidence, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from windlass.testing.simulator.history import SOMETIMES

from .evidence import SECOND, Evidence, Killed, Promise, Simulated
from .killed import WHY
from .verdict import failures, of_a_promise

MOST = 20  # failures that are told in full


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
        f"{evidence.took:,.0f} s; what each promise says is on [the guarantees page](guarantees.md).", "",
        *_verdict(failures(evidence), evidence.left_out), *_promises(evidence.promises), *_killed(evidence.killed),
        *_simulated(evidence.simulated), *_again(evidence),
    ])  # fmt: skip


def table(head: Sequence[object], rows: Iterable[Sequence[object]], *, numbers_from: int = 1) -> Iterator[str]:
    yield _row(head)
    yield _row(["---" if place < numbers_from else "---:" for place in range(len(head))])
    yield from map(_row, rows)
    yield ""


def _row(cells: Sequence[object]) -> str:
    return "| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells) + " |"


def _verdict(found: list[str], left_out: list[str]) -> Iterator[str]:
    if left_out:
        yield f"**Only a part of the proof: left out were {', '.join(left_out)}.**"
        yield ""
    if not found:
        yield f"**{'Nothing that was tried failed' if left_out else 'Every promise held'}. No job was lost.**"
    else:
        yield f"**NOT PROVED: {len(found)} failures.**"
        yield ""
        yield from (f"- {_one_line(failure)}" for failure in found[:MOST])
        if len(found) > MOST:
            yield f"- and {len(found) - MOST} more"
    yield ""


def _one_line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _promises(promises: list[Promise]) -> Iterator[str]:
    if not promises:
        return
    yield "## The tests of each promise"
    yield ""
    yield "A test counts once for each store, fault or point of a worker's life that it is run for."
    yield ""
    yield from table(("promise", "held", "tests", "passed", "failed", "not run"), map(_promise, promises), numbers_from=2)
    for promise in promises:
        for failure in of_a_promise(promise):
            yield f"- {_one_line(failure)}"
        for test in promise.tests:
            for words in test.failed:
                yield from ("", "```text", *words.splitlines()[-MOST:], "```")


def _promise(promise: Promise) -> Sequence[object]:
    tests = promise.tests
    passed, failed = sum(test.passed for test in tests), sum(len(test.failed) for test in tests)
    not_run = sum(not test.passed and not test.failed for test in tests)
    return promise.title, "yes" if promise.holds else "**no**", len(tests), passed, failed, not_run


def _killed(killed: list[Killed]) -> Iterator[str]:
    if not killed:
        return
    yield "## Real processes, killed"
    yield ""
    yield (
        "Workers and a producer that enqueues without pause are killed, stopped and cut off at random. Then the rows of "
        "the store are held against what the handlers wrote down themselves."
    )
    yield ""
    stores = [one.store for one in killed]
    yield from table(("fault that hit", *stores), _side_by_side([one.hits for one in killed]))
    yield from table(("came of it", *stores), _side_by_side([_facts(one) for one in killed]))
    yield "Why a job was executed again, and why that is allowed:"
    yield ""
    yield from (f"- *{why}*: {meaning}." for why, meaning in WHY.items())
    yield (
        "- A job *taken over* never started twice: its crash was recorded as a failure, and a new job, with an id of its "
        "own, did the work."
    )
    yield ""


def _side_by_side(columns: Sequence[Mapping[str, object]]) -> Iterator[Sequence[object]]:
    for name in dict.fromkeys(name for column in columns for name in column):
        yield name, *(column.get(name, 0) for column in columns)


def _facts(one: Killed) -> dict[str, object]:
    return {
        "seed": str(one.seed), "jobs acknowledged": one.accepted, "jobs in the store": one.jobs,
        **{f"of them {end}": one.ended[end] for end in sorted(one.ended)}, "executions": one.executions,
        **{f"again: {why}": one.again[why] for why in (*WHY, *(one.again.keys() - WHY))},
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
        f"Seeds {simulated.first}:{simulated.last}, each a fleet of the real worker on virtual time, every rule checked "
        "after every call that reached the store."
    )
    yield ""
    yield from table(("what", "how often"), _counted(simulated.totals))
    yield from table(("fault that hit", "how often"), _counted(simulated.faults))
    yield "Rare branches that were reached:"
    yield ""
    yield from table(("how often", "branch"), (
        (f"{simulated.reached[name]:,}" if simulated.reached[name] else "**never**", meaning)
        for name, meaning in SOMETIMES.items()
    ), numbers_from=0)  # fmt: skip
    for told in simulated.failed:
        yield from ("```text", *told.splitlines(), "```", "")


def _counted(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items())


def _again(evidence: Evidence) -> Iterator[str]:
    yield "## Again"
    yield ""
    yield "```text"
    yield f"make proof SECONDS={evidence.budget:g}" + (f" FIRST={evidence.simulated.first}" if evidence.simulated else "")
    if evidence.simulated is not None:
        yield f"python -m windlass.testing.simulator --seeds {evidence.simulated.first}:{evidence.simulated.last}"
    yield "```"
    yield ""
    yield (
        "A seed of the simulator replays to the byte. What happens to real processes does not: their seed chooses who is "
        "hit when, and the machine does the rest."
    )
    yield ""
