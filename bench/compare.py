"""Is this tree slower than another revision? Both run the same short scenarios in turn, on this machine, in one run.

    python bench/compare.py REV [--store postgres] [--repeats 5] [--scale 0.2] [--tolerance 0.05] [--only TEXT]
                            [--json FILE]

REV is checked out into a temporary worktree, of which only `src` is used: the scripts that measure are those of this tree,
on both sides. The sides swap places from round to round, and a ratio is taken within a round, so that a slow spell of the
machine meets both. A regression is worse in every single round, and in the median by more than the tolerance and by more
than either side differs from itself; then the exit code is 1. Whatever else differs is noise, or too little to know.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final, Literal

import msgspec
import scenario_plans
from plans import LIMIT, Command, Plan
from postgres_plans import LIMIT as POSTGRES_LIMIT
from report import QUANTITIES
from run import LEAST_ROUNDS, SHORT_SCALE, STORES, Places, open_directory, quiet, sample
from scaling import scaled
from server import private_server

HERE: Final = Path(__file__).parent
ROUNDS: Final = 5
TOLERANCE: Final = 0.05
NOISY: Final = 1.5  # times what half of the samples do not exceed
WILD: Final = 0.9  # more noise than that and nothing is ever judged
HEADER: Final = """\
| what | unit | before | now | now / before | range | |
|---|---|---:|---:|---:|---|---|"""

Verdict = Literal["slower", "faster", ""]


class Change(msgspec.Struct, frozen=True):
    """One quantity of one scenario, before and now: a sample of each for every round."""

    title: str
    quantity: str
    before: tuple[float, ...]
    now: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        return [now / before for before, now in zip(self.before, self.now, strict=True) if before]

    @property
    def noise(self) -> float:
        """How far a side is from its own median, usually: the share that half of its samples do not exceed, and some."""
        return max(NOISY * statistics.median(abs(one / middle - 1) for one in side)
                   for side in (self.before, self.now) if (middle := statistics.median(side)))  # fmt: skip

    def verdict(self, tolerance: float) -> Verdict:
        """By the median, and by every round: one that disagrees makes it noise."""
        better = QUANTITIES[self.quantity].more_is_better
        gains = [ratio if better else 1 / ratio for ratio in self.ratios if ratio]
        if len(gains) < LEAST_ROUNDS:
            return ""
        least = min(max(tolerance, self.noise), WILD)
        if statistics.median(gains) < 1 - least and max(gains) < 1:
            return "slower"
        return "faster" if statistics.median(gains) > 1 / (1 - least) and min(gains) > 1 else ""


def row(change: Change, tolerance: float) -> str:
    told, ratios = QUANTITIES[change.quantity], change.ratios
    figures = [f"{statistics.median(side):,.{told.digits}f}" for side in (change.before, change.now)]
    spread = [f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}–{max(ratios):.2f}"] if ratios else ["", ""]
    verdict = change.verdict(tolerance)
    return f"| {' | '.join([change.title, told.unit, *figures, *spread, f'**{verdict}**' if verdict else ''])} |"


def page(changes: Sequence[Change], base: str, rounds: int, tolerance: float) -> str:
    slower = sum(change.verdict(tolerance) == "slower" for change in changes)
    said = f"{slower} of {len(changes)} are slower than before" if slower else "Nothing is slower than before, beyond noise"
    first = f"This tree against {base}, {rounds} rounds, tolerance {tolerance:.0%}."
    return "\n".join([first, "", HEADER, *(row(change, tolerance) for change in changes), "", f"{said}."])


# ------------------------------------------------------------------------------------------------------------ the two sides


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """A worktree of that revision, removed again."""
    with tempfile.TemporaryDirectory(prefix="windlass-compare-") as name:
        tree = Path(name) / "tree"
        git("worktree", "add", "--quiet", "--detach", str(tree), revision)
        try:
            yield tree
        finally:
            git("worktree", "remove", "--force", str(tree))


def git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(HERE), *words], capture_output=True, text=True, check=False)  # noqa: S607
    if done.returncode:
        raise SystemExit(f"git {shlex.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def of_tree(tree: Path) -> Iterator[None]:
    """Whatever is started meanwhile, and what that starts, imports Windlass from there."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(tree / "src")
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def check_source(tree: Path) -> None:
    """That revision may be too old to be imported here, or something else be imported in its place."""
    ask = "import windlass, sys; sys.stdout.write(windlass.__file__)"
    with of_tree(tree):
        found = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False).stdout
    if not Path(found).is_relative_to(tree):
        raise SystemExit(f"Windlass would be imported from {found or 'nowhere'}, not from {tree}")


# ------------------------------------------------------------------------------------------------------------- the rounds


def wanted(store: Literal["sqlite", "postgres"], scale: float, only: str) -> list[Plan]:
    """What is ours in the short set; a bare loop does not change."""
    plans = scenario_plans.short_plans(store, scaled(scenario_plans.FULL, scale))
    assert not any(plan.ours[0] in (LIMIT, POSTGRES_LIMIT) for plan in plans), "a limit is no side of its own"
    return [plan for plan in plans if only.lower() in plan.title.lower()]


def title_of(plan: Plan) -> str:
    """What it is compared with in the short set is no matter here."""
    return plan.title.split(", against")[0]


def order(turn: int, sides: Sequence[Path]) -> list[Path]:
    """Who goes first now goes second in the next round."""
    return list(sides) if turn % 2 == 0 else list(reversed(sides))


def measure(
    commands: Sequence[Command], sides: Sequence[Path], directory: Path, places: Places, rounds: int
) -> dict[tuple[Path, Command], list[dict[str, float]]]:
    seen: dict[tuple[Path, Command], list[dict[str, float]]] = {}
    for turn in range(rounds):
        for command in commands:
            for side in order(turn, sides):
                busy = quiet()
                with of_tree(side):
                    taken = sample(command, directory, places).figures
                seen.setdefault((side, command), []).append(taken)
                when = "now" if side == sides[-1] else "before"
                told = "  ".join(f"{name} {value:,.6g}" for name, value in taken.items() if name in QUANTITIES)
                first = f"round {turn + 1}/{rounds}  {when:6}  others {busy:4.0%}  {shlex.join(command)}"
                print(f"{first}\n    {told}", file=sys.stderr)
    return seen


def options_of(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Is this tree slower than another revision?")
    parser.add_argument("base", metavar="REV")
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--repeats", type=int, default=ROUNDS, help="rounds, at least 3 (default 5)")
    parser.add_argument("--scale", type=float, default=SHORT_SCALE, help="of all numbers of jobs and rows")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="what is too little to matter (default 0.05)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only what has it in its title")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    parser.add_argument("--dir", type=Path, help="a directory on a disk (default: the system's temporary one)")
    return parser.parse_args(argv)


def main() -> int:
    options = options_of()
    rounds, plans = max(LEAST_ROUNDS, options.repeats), wanted(options.store, options.scale, options.only)
    if not plans:
        raise SystemExit(f"nothing is called {options.only!r}")
    revision = git("rev-parse", "--verify", f"{options.base}^{{commit}}")
    with (
        open_directory(options.dir) as directory,
        checked_out(revision) as tree,
        private_server(str(directory)) if options.store == "postgres" else nullcontext("") as server,
    ):
        sides = [tree, HERE.parent]
        for side in sides:
            check_source(side)
        seen = measure(list({plan.ours: None for plan in plans}), sides, directory, {scenario_plans.SERVER: server}, rounds)
    changes = [
        Change(
            title_of(plan), plan.quantity, *(tuple(one[plan.quantity] for one in seen[side, plan.ours]) for side in sides)
        )
        for plan in plans
        if all(plan.quantity in one for side in sides for one in seen[side, plan.ours])
    ]
    print(page(changes, f"{options.base} ({revision[:10]})", rounds, options.tolerance))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode({"base": revision, "changes": changes})))
    return int(any(change.verdict(options.tolerance) == "slower" for change in changes))


if __name__ == "__main__":
    sys.exit(main())
