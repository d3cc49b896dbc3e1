"""`make soak`"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import windlass
from postgres.server import Server

from .report import Seen, Soak, as_json, as_markdown
from .sizes import PostgresSizes, Sizes, SqliteSizes
from .stage import Stage

STORES: Final = ("sqlite", "postgres")
USUAL: Final = 30.0  # minutes; whoever soaks for less tidies up as much more often
SAMPLES: Final = 60  # at least so many, and one every ten seconds
KILLS: Final = 40
SHORTEST: Final = 0.1  # minutes: less is over before the first worker has started
FEWEST_WORKERS: Final = 2  # the first is never killed


def main(argv: Sequence[str]) -> int:
    options = parser().parse_args(argv)
    haste = max(1.0, USUAL / options.minutes)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="windlass-soak-")))
        stages = []
        for store in options.stores:
            sizes = sizes_of(store, place, stack)
            stages.append(Stage(sizes, place, workers=options.workers, rate=options.rate, haste=haste))
            stack.callback(stages[-1].close)
        seen = soaked(stages, 60 * options.minutes)
        problems = [problem for stage in stages for problem in stage.problems()]
    soak = Soak(windlass.__version__, f"{datetime.now(UTC):%Y-%m-%d}", options.minutes, haste, options.rate, seen, problems)
    return told(soak, options.out)


def sizes_of(store: str, place: Path, stack: ExitStack) -> Sizes:
    """A fresh store, made before anybody uses it."""
    made: Sizes
    if store == "sqlite":
        made = SqliteSizes(place / "jobs.db")
    else:
        server = stack.enter_context(Server(durable=True, options={"autovacuum_naptime": "10s"}))
        made = PostgresSizes(server.create_database())
    asyncio.run(opened_once(made.url))
    return made


async def opened_once(url: str) -> None:
    app = windlass.Windlass(url)
    _ = app.client.driver
    await app.close()


def soaked(stages: list[Stage], seconds: float) -> list[Seen]:
    dice, seen = random.Random(1), [Seen(stage.sizes.name) for stage in stages]
    every, killing = min(10.0, seconds / SAMPLES), max(seconds / KILLS, 4.0)
    began = next_kill = time.monotonic()
    next_sample = began + every
    while (now := time.monotonic()) < began + seconds:
        if now >= next_kill:
            next_kill += killing
            for stage, one in zip(stages, seen, strict=True):
                stage.kill_somebody(dice)
                one.kills = stage.kills
        if now >= next_sample:
            next_sample += every
            for stage, one in zip(stages, seen, strict=True):
                one.samples.append(stage.sample())
        time.sleep(max(0.0, min(next_kill, next_sample) - time.monotonic()))
    return seen


def told(soak: Soak, out: Path) -> int:
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.md").write_text(as_markdown(soak))
    (out / "report.json").write_text(as_json(soak))
    print(as_markdown(soak))
    return 1 if soak.failures() else 0


def minutes(text: str) -> float:
    found = number(text)
    if found < SHORTEST:
        raise argparse.ArgumentTypeError(f"{text} is too short, type {SHORTEST:g} or more: make soak MINUTES={USUAL:g}")
    return found


def rate(text: str) -> float:
    found = number(text)
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{text} is no load, type how many jobs a second: --rate 60")
    return found


def workers(text: str) -> int:
    if not text.isdecimal() or int(text) < FEWEST_WORKERS:
        raise argparse.ArgumentTypeError(
            f"{text} are too few: one stays and others are killed, type {FEWEST_WORKERS} or more: --workers 3"
        )
    return int(text)


def number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"{text!r} is no number, type one such as 30")
    return found


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="make soak", description=__doc__)
    made.add_argument("--minutes", type=minutes, default=USUAL)
    made.add_argument("--rate", type=rate, default=60.0, help="jobs a second, for each store")
    made.add_argument("--workers", type=workers, default=3, help="for each store; the first is never killed")
    made.add_argument("--stores", nargs="+", choices=STORES, default=STORES)
    made.add_argument("--out", type=Path, default=Path("soak"), help="directory of report.md and report.json")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
