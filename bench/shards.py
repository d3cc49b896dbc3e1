"""What several databases would bring, before anybody builds them: a model of jobs of many orgs, routed to shards.

    python bench/shards.py                       1 to 16 shards, 1,000 orgs, Zipf 1.0
    python bench/shards.py --skew 0.6 --orgs 200 other customers
    python bench/shards.py --split 4             the hottest org is routed by queue, to four places
    python bench/shards.py --bulk 1              jobs that come one by one
    python bench/shards.py --json

One database serves as many jobs a second as `bench/RESULTS-postgres.md` says one machine did. Shards share nothing: each
has its own workers, leader and limits. Shares of orgs follow Zipf's law. What the arithmetic says of a placement is tried:
a discrete-time queue for each shard, to which bulks come by chance (a fixed seed), must keep up at nine tenths of it and
fall behind at eleven tenths.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import exp, sqrt
from pathlib import Path
from random import Random
from typing import Final

RESULTS: Final = Path(__file__).parent / "RESULTS-postgres.md"
SHARDS: Final = (1, 2, 3, 4, 6, 8, 12, 16)
TICK: Final = 0.02  # seconds: what a worker claims ahead
CALM, FLOODED = 0.9, 1.1


@dataclass(frozen=True)
class Measured:
    """Of one database and its worker on one machine."""

    rate: float  # drained jobs a second
    server_us: float  # the server's processor time for a job
    worker_us: float
    cores: int


@dataclass(frozen=True)
class Row:
    """Throughput is in units of one database. `wait`: p99 of the hottest shard, in ms, at nine tenths. `behind`: jobs a
    second by which it falls behind at eleven tenths, as a share of what arrives there. `idle`: of the others, then."""

    shards: int
    by_hash: float
    by_load: float
    bound: float
    hottest: float
    wait: float
    behind: float
    idle: float


def measured(text: str) -> Measured:
    """From the generated page; the first figure of a row is ours."""
    return Measured(
        rate=_figure(text, r"drain of [\d,]+ async jobs, 1 process"),
        server_us=_figure(text, r"server's processor time for a drained job"),
        worker_us=_figure(text, r"worker's processor time"), cores=int(_found(text, r"(\d+) cores")),
    )  # fmt: skip


def _figure(text: str, what: str) -> float:
    return float(_found(text, rf"^\| {what}[^|]*\|[^|]*\| ([\d,.]+)").replace(",", ""))


def _found(text: str, pattern: str) -> str:
    match = re.search(pattern, text, re.M)
    if match is None:
        raise SystemExit(f"{RESULTS.name} has no line like {pattern!r}; say it with --rate")
    return match[1]


# -------------------------------------------------------------------------------------------------------------- placement


def zipf(orgs: int, skew: float) -> list[float]:
    weights = [1 / rank**skew for rank in range(1, orgs + 1)]
    whole = sum(weights)
    return [weight / whole for weight in weights]


def split(shares: Sequence[float], parts: int) -> list[float]:
    """The hottest org in as many places: it has no one order, limit or scope of keys any more."""
    hottest = max(shares)
    rest = list(shares)
    rest.remove(hottest)
    return [*(hottest / parts for _ in range(parts)), *rest]


def by_hash(shares: Sequence[float], shards: int) -> list[float]:
    """Every org where the highest of its hashes is: a new shard takes only what becomes its own."""
    loads = [0.0] * shards
    for org, share in enumerate(shares):
        loads[max(range(shards), key=lambda shard: _hash(org, shard))] += share
    return loads


def _hash(org: int, shard: int) -> bytes:
    return hashlib.blake2b(f"org-{org}/{shard}".encode(), digest_size=8).digest()


def by_load(shares: Sequence[float], shards: int) -> list[float]:
    """By a table: the largest first, each to the shard that has least."""
    loads = [0.0] * shards
    for share in sorted(shares, reverse=True):
        loads[loads.index(min(loads))] += share
    return loads


# ------------------------------------------------------------------------------------------------------------- simulation


@dataclass(frozen=True)
class Trial:
    seconds: float = 30.0
    bulk: int = 1_000
    seed: int = 1


def simulate(loads: Sequence[float], offered: float, rate: float, trial: Trial) -> tuple[list[float], list[float]]:
    """Jobs a second by which each shard fell behind, and p99 of the waits of each, in seconds. `offered`: jobs a second of
    all together. A shard ends at most `rate` of them a second, in the order in which they came."""
    behind, waits = [], []
    for number, load in enumerate(loads):
        lot = Random(f"{trial.seed}/{number}")  # noqa: S311 - a replay, not a secret
        backlog, seen = 0.0, []
        for _ in range(round(trial.seconds / TICK)):
            came = trial.bulk * _by_chance(lot, offered * load * TICK / trial.bulk)
            backlog = max(backlog + came - rate * TICK, 0.0)
            seen.append(backlog / rate)
        behind.append(backlog / trial.seconds)
        waits.append(sorted(seen)[int(0.99 * (len(seen) - 1))])
    return behind, waits


def _by_chance(lot: Random, mean: float) -> int:
    if mean > 50:
        return max(round(lot.gauss(mean, sqrt(mean))), 0)
    count, product, least = 0, lot.random(), exp(-mean)
    while product > least:
        count, product = count + 1, product * lot.random()
    return count


def row(shares: Sequence[float], shards: int, rate: float, trial: Trial) -> Row:
    """The trial is of the placement by load: the best that routing by org can do."""
    hashed, placed = by_hash(shares, shards), by_load(shares, shards)
    hottest = max(placed)
    most = rate / hottest
    place = placed.index(hottest)
    _, waits = simulate(placed, CALM * most, rate, trial)
    behind, _ = simulate(placed, FLOODED * most, rate, trial)
    others = [min(FLOODED * most * load / rate, 1.0) for number, load in enumerate(placed) if number != place]
    return Row(
        shards=shards, by_hash=1 / max(hashed), by_load=1 / hottest, bound=1 / max(shares), hottest=hottest,
        wait=waits[place] * 1_000, behind=behind[place] / (FLOODED * rate),
        idle=1 - sum(others) / len(others) if others else 0.0,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------------------- output


def table(rows: Iterable[Row]) -> str:
    """In units of one database: it says the same however fast that is."""
    lines = [
        "| shards | by hash of the org | by a table of orgs | hottest shard has | no placement passes |",
        "|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {one.shards} | {one.by_hash:.1f} × | {one.by_load:.1f} × | {one.hottest:.0%} | "
        f"{min(one.bound, one.shards):.1f} × |"
        for one in rows
    ]
    return "\n".join(lines)


def in_jobs(rows: Iterable[Row], known: Measured) -> str:
    lines = [
        "| shards | jobs/s by a table | server cores | worker cores | p99 wait at 90 % | behind at 110 % | others idle |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in rows:
        rate = one.by_load * known.rate
        lines.append(
            f"| {one.shards} | {rate:,.0f} | {rate * known.server_us / 1e6:.1f} | {rate * known.worker_us / 1e6:.1f} | "
            f"{one.wait:,.0f} ms | {one.behind:.0%} | {one.idle:.0%} |"
        )
    return "\n".join(lines)


def verdict(rows: Sequence[Row]) -> str:
    bound = rows[0].bound
    enough = next((one.shards for one in rows if one.by_load >= 0.98 * min(bound, rows[-1].shards)), None)
    if enough is None or bound >= rows[-1].shards:
        return f"The hottest org is 1/{bound:.1f} of all jobs: up to {int(bound)} shards it bounds nothing."
    return (
        f"The hottest org is 1/{bound:.1f} of all jobs, and lives in one place: {bound:.1f} × one database is the end, "
        f"reached with {enough} shards. More shards only idle: split that org, or give it a larger machine."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orgs", type=int, default=1_000)
    parser.add_argument("--skew", type=float, default=1.0, help="exponent of Zipf's law; 0 = all alike")
    parser.add_argument("--split", type=int, default=1, help="into how many places the hottest org is routed")
    parser.add_argument("--shards", type=int, nargs="*", default=SHARDS)
    parser.add_argument("--rate", type=float, help="jobs a second of one database, instead of the measured number")
    parser.add_argument("--seconds", type=float, default=60.0, help="of simulated time")
    parser.add_argument("--bulk", type=int, default=1_000, help="jobs that are enqueued at once")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    said = parser.parse_args()
    known = measured(RESULTS.read_text())
    if said.rate is not None:
        known = Measured(said.rate, known.server_us, known.worker_us, known.cores)
    shares = split(zipf(said.orgs, said.skew), said.split)
    rows = [row(shares, shards, known.rate, Trial(said.seconds, said.bulk, said.seed)) for shards in said.shards]
    if said.json:
        print(json.dumps({"measured": asdict(known), "rows": [asdict(one) for one in rows]}))
        return
    print(f"{said.orgs:,} orgs, Zipf {said.skew:g}, seed {said.seed}. In units of one database:\n\n{table(rows)}\n")
    print(verdict(rows))
    print(
        f"\nWith {known.rate:,.0f} jobs/s of one database on {known.cores} cores ({RESULTS.name}):\n\n"
        f"{in_jobs(rows, known)}"
    )


if __name__ == "__main__":
    main()
