"""Plant every bug that the operators can make in SQL and core, one at a time, and see whether a test fails.

    python -m mutation [core] [sqlite] [postgres]      those that were not tried yet
    --seconds=600        as many as there is time for; the next run goes on
    --survivors          those that no test failed for, or that hung, once more
    --unexplained        of those only the ones of which survivors.toml says nothing
    --shard=1/4          every fourth
    --tests=150          at most so many for each: a first, coarse run; `--survivors` then tries those that are left on all
    --file=leases        only files whose name holds the word; --place=claim only such blocks and functions
    --only=WORDS         on tests that these words choose, as with pytest's -k: quicker than to run all of them first
    --page               write docs/design/mutation.md and tests/mutation/tried.txt from what is known, and nothing else

What is found is kept: see `kept.py`.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from mutation import kept, page, suites
from mutation.every import PARTS, every
from mutation.loop import HERE, NOT_PLANTED, Course, Loop, Verdict
from mutation.mutant import Mutant

OPTIONS = {"seconds", "survivors", "unexplained", "shard", "tests", "file", "place", "only", "page"}
QUIET = "ignore::pytest.PytestAssertRewriteWarning"  # we are imported before pytest could rewrite anything


def told(mutant: Mutant, verdict: Verdict) -> None:
    if verdict.by == NOT_PLANTED:
        print(f"{NOT_PLANTED}: {mutant.reach}: {mutant.what}", flush=True)
        return
    kept.keep(mutant, verdict)
    if verdict.by is None or verdict.hung:
        how = "hung" if verdict.hung else "survived"
        print(f"{how} ({verdict.tests} tests): {mutant.reach}: {mutant.what}", flush=True)


def shard_of(words: str) -> tuple[int, int] | None:
    """Which of how many: `1/4` is the first of four."""
    nth, _, of = words.partition("/")
    if not (nth.isdecimal() and of.isdecimal() and 1 <= int(nth) <= int(of)):
        return None
    return int(nth), int(of)


def strange_in(options: dict[str, str], parts: list[str]) -> list[str]:
    """What nobody understands: a run over nothing would look like one that found nothing."""
    strange = sorted((options.keys() - OPTIONS) | (set(parts) - set(PARTS)))
    if shard_of(options.get("shard", "1/1")) is None:
        strange.append(f"--shard={options['shard']}")
    for name in ("seconds", "tests"):
        if not options.get(name, "1").isdecimal() or int(options.get(name, "1")) < 1:
            strange.append(f"--{name}={options[name]}")
    return strange


def main(words: list[str]) -> int:
    options = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
    parts = [word for word in words if not word.startswith("--")] or list(PARTS)
    if strange := strange_in(options, parts):
        print(f"{' '.join(strange)}?\n\n{__doc__}")
        return 2
    HERE.mkdir(exist_ok=True)
    if "page" in options:
        found = kept.known()
        page.write(found)
        kept.write_tried(found, {mutant.key for part in PARTS for mutant in every(part)})
        return 0
    until = time.monotonic() + float(options.get("seconds", "inf"))
    for part in parts:
        try_part(part, options, until)
    return 0


def is_wanted(known: kept.Result | None, *, again: bool) -> bool:
    return known is not None and known.how != "killed" if again else known is None


def try_part(part: str, options: dict[str, str], until: float) -> None:
    nth, of = shard_of(options.get("shard", "1/1")) or (1, 1)
    found, reasons, again = kept.known(), page.explanations(), bool(options.keys() & {"survivors", "unexplained"})
    chosen = [
        mutant for number, mutant in enumerate(every(part))
        if number % of == nth - 1
        and options.get("file", "") in mutant.file and options.get("place", "") in mutant.place
        and is_wanted(found.get(mutant.key), again=again) and not ("unexplained" in options and page.why(mutant, reasons))
    ]  # fmt: skip
    chosen.sort(key=lambda mutant: bool(page.why(mutant, reasons)))  # who is expected to survive costs the most: at last
    caught = Counter((result.reach, result.by) for result in found.values() if result.by and result.how == "killed")
    suite = suites.SUITES[part]
    most = int(options["tests"]) if "tests" in options else None
    print(f"{part}: {len(chosen)} mutants", flush=True)
    if not chosen or time.monotonic() > until:
        return
    functions = any(mutant.file.endswith(".py") for mutant in chosen)
    reached = HERE / f"reach-{part}{'' if functions else '-sql'}.json"
    course = Course(chosen, told, until, reached, suite.between, caught, most, functions)
    options_of_pytest = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", "-W", QUIET, "--no-header"]
    loop = Loop(course)
    suite.start()
    pytest.main([*options_of_pytest, "--hypothesis-seed=0", *suite.chosen(options.get("only"))], plugins=[loop])
    suite.stop()
    if loop.again:
        os.execv(sys.executable, [sys.executable, "-m", "mutation", *sys.argv[1:]])  # noqa: S606  ourselves


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
