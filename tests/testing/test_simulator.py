"""The simulator is only worth what it catches: honest workers pass, and each way of being wrong is named."""

from __future__ import annotations

import asyncio
import gc
import runpy
import signal
import warnings
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from windlass.clock import SECOND
from windlass.coordinator.burial import Burial
from windlass.coordinator.election import Election
from windlass.coordinator.registry import Registry
from windlass.core.changes import Expire
from windlass.core.settle import Execution, Failed, Outcome, Released, Succeeded, settle
from windlass.drivers.memory import duties, fleet, leases, settlement
from windlass.testing.simulator import run
from windlass.testing.simulator import world as worlds
from windlass.testing.simulator.real import real_worker
from windlass.testing.simulator.run import Campaign, main
from windlass.testing.simulator.scenario import Seat, simulate
from windlass.testing.simulator.world import DAWN, Process, World
from windlass.types import Claimed, Micros
from windlass.worker import sweeper
from windlass.worker.keeper import Keeper

from .toy_worker import ToyWorker


async def honest(seat: Seat) -> None:
    await ToyWorker(seat).run()


def broken_by(worker: type[ToyWorker], *, profile: str = "swarm", seeds: int = 150) -> str:
    """The rule that a wrong worker breaks, in the first seed that shows it."""

    async def run(seat: Seat) -> None:
        await worker(seat).run()

    return first_broken(run, profile=profile, seeds=seeds)


def first_broken(worker: Callable[[Seat], Coroutine[Any, Any, None]], *, profile: str = "swarm", seeds: int = 150) -> str:
    for seed in range(seeds):
        violation = simulate(seed, worker, profile=profile).history.violation
        if violation is not None:
            return violation.rule
    return "no rule was broken"


# ------------------------------------------------------------------------------------------------ the loop and the world


def alone(main: Callable[[Process], Coroutine[Any, Any, None]], *, until: Micros = 1_000 * SECOND) -> World:
    world = World(1)
    world.spawn("one", main)
    world.run(until=lambda: False, deadline=DAWN + until)
    if world.history.violation is not None:
        raise world.history.violation
    return world


def test_asyncio_works_as_it_does_elsewhere() -> None:
    seen: list[str] = []

    async def tick(name: str, seconds: float) -> str:
        await asyncio.sleep(seconds)
        seen.append(name)
        return name

    async def everything(process: Process) -> None:
        assert list(await asyncio.gather(tick("b", 2), tick("a", 1))) == ["b", "a"]
        async with asyncio.TaskGroup() as group:
            group.create_task(tick("d", 0.2))
            group.create_task(tick("c", 0.1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await tick("never", 6)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(tick("never", 6), 5)
        event, lock = asyncio.Event(), asyncio.Lock()
        asyncio.get_running_loop().call_later(1, event.set)
        async with lock:
            assert await asyncio.wait_for(event.wait(), 5)
        queue: asyncio.Queue[int] = asyncio.Queue()
        queue.put_nowait(1)
        assert await queue.get() == 1
        done, pending = await asyncio.wait(
            {asyncio.create_task(tick("e", 1)), asyncio.create_task(tick("f", 9))}, timeout=3
        )
        assert (len(done), len(pending)) == (1, 1)
        for task in pending:
            task.cancel()
        seen.append(f"{process.loop.time() - process.uptime / SECOND:.1f}")

    alone(everything)
    assert seen == ["a", "b", "c", "d", "e", "16.2"]


def test_an_hour_of_waiting_takes_no_time() -> None:
    async def wait(process: Process) -> None:
        await asyncio.sleep(3_600)

    world = alone(wait, until=4_000 * SECOND)
    assert world.now - DAWN == pytest.approx(3_600 * SECOND, abs=2)
    assert world.steps < 10


def test_a_thread_is_refused_with_a_reason() -> None:
    async def blocks(process: Process) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(AssertionError, match="wants a thread"):
        alone(blocks)


def test_a_killed_process_runs_no_finally_block_and_leaves_no_noise() -> None:
    ran: list[str] = []

    async def child() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(100))
        finally:
            ran.append("finally")

    async def victim(process: Process) -> None:
        children = [asyncio.create_task(child()) for _ in range(3)]
        await asyncio.sleep(1)
        children.append(asyncio.create_task(child()))  # never stepped
        await process.die()
        ran.append("after death")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        world = alone(victim)
        assert ran == []
        assert world.processes[0].life == "dead"
        world.close()
        del world
        gc.collect()
    assert ran == ["finally"] * 3


def test_a_stopped_process_sleeps_through_its_timers_and_wakes_up_late() -> None:
    woke: list[Micros] = []

    async def sleeper(process: Process) -> None:
        await asyncio.sleep(1)
        woke.append(process.world.now - DAWN)

    world = World(1)
    process = world.spawn("one", sleeper)
    world.at(DAWN + SECOND // 2, process.stop)
    world.at(DAWN + 30 * SECOND, process.carry_on)
    world.run(until=lambda: False, deadline=DAWN + 60 * SECOND)
    assert woke == [30 * SECOND]


def test_a_stepped_clock_never_runs_backwards() -> None:
    world = World(1)
    process = Process(world, "one")
    before = process.clock.now()
    world.step_clock(process, -60 * SECOND)
    assert process.clock.now() == before
    world.now += 61 * SECOND
    assert process.clock.now() == before + SECOND


def test_a_process_that_dies_of_an_exception_breaks_a_rule() -> None:
    async def stumbles(process: Process) -> None:
        raise ValueError("oops")

    with pytest.raises(AssertionError, match=r"ends only when it is told to.*oops"):
        alone(stumbles)


# --------------------------------------------------------------------------------------------------------- whole seeds


@pytest.mark.parametrize("profile", ["calm", "crashes", "network", "stops", "clocks", "storm", "swarm"])
def test_an_honest_worker_keeps_every_rule(profile: str) -> None:
    campaign = Campaign(honest, profile=profile, store="memory")
    for seed in range(30):
        report = campaign.run(seed)
        assert report.history.violation is None, "\n".join(campaign.told(report))
    assert campaign.totals["executions"] > 200
    assert profile == "calm" or sum(campaign.faults.values()) > 30, "too few faults to prove anything"


def test_an_honest_worker_keeps_every_rule_on_sqlite() -> None:
    for seed in range(5):
        assert simulate(seed, honest, store="sqlite").history.violation is None


def test_a_seed_replays_to_the_byte() -> None:
    first = [simulate(seed, honest).history.digest() for seed in range(5)]
    assert [simulate(seed, honest).history.digest() for seed in range(5)] == first
    assert len(set(first)) == 5


def test_both_stores_tell_the_same_story() -> None:
    for seed in range(3):
        memory = simulate(seed, honest, profile="crashes").history
        assert simulate(seed, honest, profile="crashes", store="sqlite").history.digest() == memory.digest()


def test_a_campaign_says_what_it_never_reached(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "0:2", "--profile", "calm"], honest) == 0
    assert "NEVER REACHED" in capsys.readouterr().out
    assert main(["--seeds", "0:2", "--profile", "calm", "--reach-all"], honest) == 1


def test_a_failing_seed_prints_how_to_see_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    async def idle(seat: Seat) -> None:
        await asyncio.sleep(1e9)

    assert main(["--seeds", "0:1", "--profile", "calm"], idle) == 1
    told = capsys.readouterr().out
    assert "what was acknowledged ends" in told
    assert "python -m windlass.testing.simulator --seed 0 --profile calm --trace" in told


def test_processes_share_a_campaign_and_it_tells_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for jobs in ("1", "2"):
        assert main(["--seeds", "0:50", "--jobs", jobs], real_worker) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert "seeds 50 " in told[0]


def test_a_campaign_that_is_interrupted_tells_what_it_has_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part = Campaign.part

    def impatient(campaign: Campaign, seeds: range) -> Campaign:
        if seeds[0] == 20:
            raise KeyboardInterrupt
        return part(campaign, seeds)

    monkeypatch.setattr(Campaign, "part", impatient)
    assert main(["--seeds", "0:60", "--jobs", "1", "--profile", "calm"], honest) == 130
    told = capsys.readouterr().out
    assert "stopped: of the seeds from 0 on, 20 were gone through" in told
    assert "0 of 20 seeds broke a rule" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_campaign_in_the_background_can_be_interrupted(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    """Shells let it ignore SIGINT, and SIGTERM would end it without a word of what it has seen."""
    interrupted = []

    def go(argv: Sequence[str], worker: object) -> int:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        interrupted.append(number)
        return 130

    monkeypatch.setattr(run, "main", go)
    before = [signal.signal(one, signal.SIG_IGN) for one in (signal.SIGINT, signal.SIGTERM)]
    try:
        with pytest.raises(SystemExit):
            runpy.run_path(run.__file__.replace("run.py", "__main__.py"), run_name="__main__")
    finally:
        for one, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(one, handler)
    assert interrupted == [number]


def test_a_program_that_never_rests_is_caught() -> None:
    def again() -> None:
        asyncio.get_running_loop().call_soon(again)

    async def restless(process: Process) -> None:
        process.loop.call_soon(again)
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="time passes"):
        alone(restless)


def test_a_fleet_that_never_comes_to_rest_ends_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes for it, so little at each turn that nobody would live to see the deadline."""

    async def hasty(process: Process) -> None:
        def again() -> None:
            process.loop.call_later(1e-6, again)

        again()
        await asyncio.sleep(1)

    monkeypatch.setattr(worlds, "ENDLESS", 1_000)
    with pytest.raises(AssertionError, match="a fleet comes to rest"):
        alone(hasty)


# -------------------------------------------------------------------------------------------------------- wrong workers


class AcksFirst(ToyWorker):
    async def outcome(self, job: Claimed) -> Outcome:
        await self.report(job, Succeeded(), self.seat.clock.now())
        return await super().outcome(job)


class AcksFailures(ToyWorker):
    async def outcome(self, job: Claimed) -> Outcome:
        await self.seat.perform(job.id, job.token, job.payload)
        return Succeeded()


class ForgetsToSettle(ToyWorker):
    async def report(self, job: Claimed, outcome: Outcome, started: Micros) -> None:
        if not isinstance(outcome, Failed):
            await super().report(job, outcome, started)
        else:
            await asyncio.Event().wait()


class RunsAgainInPlace(ToyWorker):
    async def outcome(self, job: Claimed) -> Outcome:
        first = await super().outcome(job)
        return first if not isinstance(first, Failed) else await super().outcome(job)


class NeverFences(ToyWorker):
    def fence(self) -> None:
        """Trusts that its renewals arrive."""

    def stop(self, job: Claimed) -> None:
        """Keeps going, whatever its lease does."""


class NeverSweeps(ToyWorker):
    sweeps = False


class GivesUpAtTheFirstError(ToyWorker):
    async def look(self) -> None:
        from windlass.errors import StoreError

        try:
            await super().look()
        except StoreError as error:
            raise RuntimeError("cannot go on") from error


class ReusesTokens(ToyWorker):
    def token(self) -> str:
        return "always-the-same"


class SettlesReleasesAsFailures(ToyWorker):
    def settlement(self, job: Claimed, outcome: Outcome, started: Micros) -> Any:
        if isinstance(outcome, Released) and job.retry_mode == "same_job":
            change = settle(job, outcome, Execution(at=started))
            return Expire(handle=job.handle, token=job.token, at=started, riders=change.riders)
        return super().settlement(job, outcome, started)


@pytest.mark.parametrize(
    ("worker", "profile", "rule"),
    [
        (AcksFirst, "calm", "an effect comes before its acknowledgement"),
        (AcksFailures, "calm", "only a success is acknowledged"),
        (ForgetsToSettle, "calm", "an outcome is offered until it is answered"),
        (RunsAgainInPlace, "calm", "one claim is one execution"),
        (NeverFences, "network", "a handler ends before its lease does"),
        (NeverSweeps, "crashes", "what was acknowledged ends"),
        (GivesUpAtTheFirstError, "network", "a process ends only when it is told to"),
        (ReusesTokens, "swarm", "every lease has a token of its own"),
        (SettlesReleasesAsFailures, "crashes", "a lapsed lease is counted, and only that"),
    ],
)
def test_a_wrong_worker_is_caught(worker: type[ToyWorker], profile: str, rule: str) -> None:
    assert broken_by(worker, profile=profile) == rule


# --------------------------------------------------------------------------------------------------------- wrong stores


def test_a_store_without_a_fence_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unguarded(job: Any, **_: Any) -> str:
        return "applied" if job is not None and job.state == "running" else "not_inflight"

    monkeypatch.setattr(settlement, "judge", unguarded)
    assert first_broken(honest, profile="storm") == "only the holder of a valid lease changes a job"


def test_a_store_that_takes_leases_back_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "is_expired", lambda job, now: (job.lease_expires_at or 0) <= now + 3 * SECOND)
    assert first_broken(honest, profile="storm") in (
        "a lapsed lease is counted, and only that",
        "at most one valid lease per job",
    )


def test_a_store_that_forgets_a_limit_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.core.limits.room", lambda limit, now: None)
    assert first_broken(honest, profile="calm") == "a limit bounds valid leases"


def test_a_store_that_leaks_permits_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "free_permits", lambda tables, keys, now: None)
    assert first_broken(honest, profile="crashes") == "no permit leaks"


def test_a_store_that_runs_cancelled_jobs_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement, "honour_cancel", lambda change, **_: change)
    assert first_broken(honest, profile="storm") == "a job that was asked to cancel never runs again"


# ------------------------------------------------------------------------------------------------------ the real worker


async def _never(self: Any) -> None:
    await asyncio.Event().wait()


async def _recovers_nothing(client: Any) -> int:
    return 0


async def _later(self: Any) -> Micros:
    return 3_600 * SECOND


_beat: Any = Registry.tick


async def _beats_once(self: Any) -> Micros:
    await _beat(self)
    return 3_600 * SECOND


_for_ever = property(lambda self: self._mandate.epoch if self._mandate else None)


def _always(epoch: int | None, **_: Any) -> bool:
    return True


def _elects_everybody(worker_id: str, **_: Any) -> str:
    return "elected"


@pytest.mark.parametrize(
    ("where", "name", "wrong", "profile", "rule"),
    [
        (Keeper, "fence", _never, "network", "a handler ends before its lease does"),
        (Keeper, "renew", _never, "calm", "a lease that nobody disturbs does not lapse"),
        (sweeper, "recover_lapsed", _recovers_nothing, "crashes", "what was acknowledged ends"),
        (Burial, "tick", _later, "crashes", "a dead worker leaves the registry"),
        (Registry, "tick", _beats_once, "calm", "a lease that nobody disturbs does not lapse"),
        (Election, "epoch", _for_ever, "swarm", "a leader stops acting before another may lead"),
        (duties, "may_maintain", _always, "storm", "only who leads does a leader's duty"),
        (fleet, "judge_bid", _elects_everybody, "calm", "no two lead at one instant"),
    ],
)
def test_a_broken_part_of_the_real_worker_is_caught(
    where: Any, name: str, wrong: Any, profile: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, wrong)
    assert first_broken(real_worker, profile=profile, seeds=300) == rule
