"""Real processes, really killed: at every step of every transaction, and at random with kill -9."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import apsw
import pytest

from windlass.core.recovery import CRASH_ERROR, recover
from windlass.core.settle import Execution
from windlass.drivers.sqlite import SqliteDriver
from windlass.drivers.values import Claim, JobQuery
from windlass.types import Job, NewJob, Run

CHILD = Path(__file__).with_name("crash_child.py")
NOW = 10**15
LEASE = 30_000_000
STEPS = ("begun", "before_commit", "after_commit")


def crash(path: Path, deed: str, step: str) -> None:
    done = subprocess.run([sys.executable, str(CHILD), str(path), deed, step], capture_output=True, timeout=60)
    assert done.returncode == 7, done.stderr.decode()


def integrity(path: Path) -> str:
    connection = apsw.Connection(str(path))
    try:
        assert list(connection.execute("pragma foreign_key_check")) == []
        return str(next(iter(connection.execute("pragma integrity_check")))[0])
    finally:
        connection.close()


async def everything(driver: SqliteDriver) -> tuple[dict[str, Job], dict[str, list[Run]]]:
    jobs = {job.id: job for job in (await driver.find(JobQuery(superseded=True, limit=10_000))).jobs}
    return jobs, {job_id: await driver.runs(job_id) for job_id in jobs}


async def recovered_twice(driver: SqliteDriver) -> tuple[dict[str, Job], dict[str, list[Run]]]:
    """Two passes of recovery long after the crash; the second must change nothing."""
    now = NOW + 10 * LEASE
    states = []
    for turn in range(2):
        _, undecided = await driver.expire(now=now, limit=100)
        await driver.settle([recover(job, Execution(at=now, child_id=f"r{turn}-{job.id}")) for job in undecided], now=now)
        states.append(await everything(driver))
    assert states[0] == states[1], "recovery run twice changed something"
    return states[0]


def after(path: Path) -> tuple[dict[str, Job], dict[str, list[Run]]]:
    async def look() -> tuple[dict[str, Job], dict[str, list[Run]]]:
        driver = SqliteDriver(path)
        try:
            return await recovered_twice(driver)
        finally:
            await driver.close()

    assert integrity(path) == "ok"
    return asyncio.run(look())


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_while_enqueueing_stores_all_or_nothing(tmp_path: Path, step: str) -> None:
    crash(tmp_path / "jobs.db", "enqueue", step)
    jobs, _ = after(tmp_path / "jobs.db")
    assert set(jobs) == ({"first", "second"} if step == "after_commit" else {"first"})


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_while_claiming_leaves_job_and_run_together(tmp_path: Path, step: str) -> None:
    crash(tmp_path / "jobs.db", "claim", step)
    jobs, runs = after(tmp_path / "jobs.db")
    claimed = step == "after_commit"
    assert (jobs["first"].state, jobs["first"].lost) == ("queued", 1 if claimed else 0)
    assert [run.status for run in runs["first"]] == (["failed"] if claimed else [])


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_while_acking_is_a_success_or_a_loss_never_both(tmp_path: Path, step: str) -> None:
    crash(tmp_path / "jobs.db", "ack", step)
    jobs, runs = after(tmp_path / "jobs.db")
    acked = step == "after_commit"
    assert (jobs["first"].state, jobs["first"].result) == (("succeeded", b"1") if acked else ("queued", None))
    assert [run.status for run in runs["first"]] == ["completed" if acked else "failed"]


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_while_retrying_counts_one_failure_or_one_loss(tmp_path: Path, step: str) -> None:
    crash(tmp_path / "jobs.db", "retry", step)
    jobs, runs = after(tmp_path / "jobs.db")
    job = jobs["first"]
    assert (job.state, job.attempts, job.lost) == (("queued", 1, 0) if step == "after_commit" else ("queued", 0, 1))
    assert [run.status for run in runs["first"]] == ["failed"]


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_while_making_the_retry_job_leaves_exactly_one_child(tmp_path: Path, step: str) -> None:
    crash(tmp_path / "jobs.db", "chain", step)
    jobs, runs = after(tmp_path / "jobs.db")
    parent = jobs["first"]
    assert (parent.state, parent.dead_kind, parent.executions) == ("dead", "superseded", 1)
    [child] = [job for job in jobs.values() if job.retry_of == "first"]
    assert (child.id, child.attempts) == (parent.superseded_by, 1)
    assert runs["first"][0].error == ("boom" if step == "after_commit" else CRASH_ERROR)


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_while_reclaiming_counts_the_loss_once(tmp_path: Path, step: str) -> None:
    crash(tmp_path / "jobs.db", "reclaim", step)
    jobs, runs = after(tmp_path / "jobs.db")
    reclaimed = step == "after_commit"
    assert jobs["first"].lost == (2 if reclaimed else 1)
    assert [run.status for run in runs["first"]] == (["failed"] * (2 if reclaimed else 1))


def test_kill_nine_in_a_stream_of_commits_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    dice = random.Random(9)
    acknowledged: set[str] = set()
    for number in range(12):
        command = [sys.executable, str(CHILD), str(path), "stream", str(number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            for _ in range(dice.randrange(10, 60)):
                acknowledged.add(child.stdout.readline().decode().strip())
            child.kill()
            rest = child.stdout.read().decode()
        acknowledged.update(line for line in rest.split("\n")[:-1] if line)
        assert integrity(path) == "ok"
    assert len(acknowledged) > 200, "too few commits for the test to mean anything"
    jobs, runs = after(path)
    assert acknowledged <= set(jobs)
    for job_id, job in jobs.items():
        assert len(runs[job_id]) == job.executions
        assert [run.status for run in runs[job_id]].count("completed") == (1 if job.state == "succeeded" else 0)


def test_many_processes_on_one_file_never_lease_a_job_twice(tmp_path: Path) -> None:
    path, total = tmp_path / "jobs.db", 6_000

    async def fill() -> None:
        driver = SqliteDriver(path)
        for start in range(0, total, 1_000):
            await driver.enqueue([NewJob(id=f"j{n}", type="work") for n in range(start, start + 1_000)], now=NOW)
        await driver.close()

    asyncio.run(fill())
    command = [sys.executable, str(CHILD), str(path), "drain"]
    pipe = subprocess.PIPE
    children = [subprocess.Popen([*command, f"p{n}"], stdin=pipe, stdout=pipe) for n in range(4)]
    for child in children:  # one that is there long before the others would do all the work
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
    outputs = [child.communicate(timeout=600)[0].decode().split() for child in children]  # a busy machine takes its time
    assert [child.returncode for child in children] == [0] * 4
    leased = Counter(job_id for output in outputs for job_id in output)
    assert set(leased) == {f"j{n}" for n in range(total)}
    assert set(leased.values()) == {1}
    assert sum(bool(output) for output in outputs) >= 2, "one process did all the work: nothing was shared"
    assert integrity(path) == "ok"


def test_thirty_two_claimers_in_four_processes_find_one_winner_for_an_expired_job(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"

    async def main() -> None:
        drivers = [SqliteDriver(path) for _ in range(4)]
        await drivers[0].enqueue([NewJob(id="one", type="work")], now=NOW)

        def wish(n: int) -> Claim:
            return Claim(queues=("default",), limit=1, lease_for=LEASE, worker_id=f"w{n}", token=f"t{n}")

        await drivers[0].claim(wish(-1), now=NOW)
        answers = await asyncio.gather(*[drivers[n % 4].claim(wish(n), now=NOW + LEASE) for n in range(32)])
        assert sum(len(answer) for answer in answers) == 1
        for driver in drivers:
            await driver.close()

    asyncio.run(main())
