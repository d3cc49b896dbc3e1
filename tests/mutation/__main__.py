"""Plant every bug that the operators can make in SQL and core, one at a time, and see whether a test fails.

    python -m mutation [core] [sqlite] [postgres]      those that were not tried yet
    --seconds=600        as many as there is time for; the next run goes on
    --survivors          those that no test failed for, once more
    --shard=1/4          every fourth
    --tests=150          at most so many for each: a first, coarse run; `--survivors` then tries those that are left on all
    --file=leases        only files whose name holds the word; --place=claim only such blocks and functions
    --only=WORDS         on tests that these words choose, as with pytest's -k: quicker than to run all of them first
    --page               write docs/design/mutation.md from what is known, and nothing else

What is found is kept in .mutation/results.jsonl, by a key that changes with the code.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from mutation import page, suites
from mutation.every import PARTS, every
from mutation.loop import HERE, NOT_PLANTED, Course, Loop, Verdict
from mutation.mutant import Mutant

RESULTS = HERE / "results.jsonl"
QUIET = "ignore::pytest.PytestAssertRewriteWarning"  # we are imported before pytest could rewrite anything


def known() -> dict[str, dict[str, object]]:
    """The last word on each mutant."""
    if not RESULTS.exists():
        return {}
    return {line["key"]: line for line in map(json.loads, RESULTS.read_text().splitlines())}


def keep(mutant: Mutant, verdict: Verdict) -> None:
    if verdict.by == NOT_PLANTED:
        print(f"{NOT_PLANTED}: {mutant.reach}: {mutant.what}", flush=True)
        return
    line = {
        "key": mutant.key, "file": mutant.file, "place": mutant.place, "what": mutant.what, "by": verdict.by,
        "tests": verdict.tests, "seconds": verdict.seconds,
    }  # fmt: skip
    with RESULTS.open("a") as out:
        out.write(json.dumps(line, ensure_ascii=False) + "\n")
    if verdict.by is None:
        print(f"survived ({verdict.tests} tests): {mutant.reach}: {mutant.what}", flush=True)


def main(words: list[str]) -> int:
    options = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
    parts = [word for word in words if not word.startswith("--")] or list(PARTS)
    if strange := sorted(
        (options.keys() - {"seconds", "survivors", "shard", "tests", "file", "place", "only", "page"})
        | (set(parts) - set(PARTS))
    ):
        print(f"{' '.join(strange)}?\n\n{__doc__}")
        return 2
    HERE.mkdir(exist_ok=True)
    if "page" in options:
        page.write(known())
        return 0
    until = time.monotonic() + float(options.get("seconds", "inf"))
    for part in parts:
        try_part(part, options, until)
    return 0


def try_part(part: str, options: dict[str, str], until: float) -> None:
    nth, _, of = options.get("shard", "1/1").partition("/")
    found = known()
    chosen = [
        mutant for number, mutant in enumerate(every(part))
        if number % int(of) == int(nth) - 1
        and options.get("file", "") in mutant.file and options.get("place", "") in mutant.place
        and (mutant.key in found and found[mutant.key]["by"] is None if "survivors" in options else mutant.key not in found)
    ]  # fmt: skip
    caught = Counter((f"{line['file']}:{line['place']}", str(line["by"])) for line in found.values() if line["by"])
    suite = suites.SUITES[part]
    most = int(options["tests"]) if "tests" in options else None
    print(f"{part}: {len(chosen)} mutants", flush=True)
    if not chosen or time.monotonic() > until:
        return
    course = Course(chosen, keep, until, HERE / f"reach-{part}.json", suite.between, caught, most)
    options_of_pytest = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", "-W", QUIET, "--no-header"]
    loop = Loop(course)
    suite.start()
    pytest.main([*options_of_pytest, "--hypothesis-seed=0", *suite.chosen(options.get("only"))], plugins=[loop])
    suite.stop()
    if loop.again:
        os.execv(sys.executable, [sys.executable, "-m", "mutation", *sys.argv[1:]])  # noqa: S606  ourselves


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
