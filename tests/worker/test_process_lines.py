"""The line between a worker and its children: whatever comes over it, it is the job's whose handler said it."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from windlass.errors import ChildUnstartable
from windlass.worker.processes import frames, leftovers
from windlass.worker.processes.calling import Child, introduction
from windlass.worker.processes.nursery import Nursery

from . import isolated as tasks
from .isolated import Ground, on_ground

# ------------------------------------------------------------------------------------------- what nobody has said


def framed(body: bytes, length: int | None = None) -> str:
    return (frames.MARK + (len(body) if length is None else length).to_bytes(4, "big") + body).hex()


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"GET / HTTP/1.1\r\n".hex(), id="no-frame"),
        pytest.param(b"\0\0\0\0\0\0\1\0begins".hex(), id="begins-one-and-goes-no-further"),
        pytest.param(framed(b"", 0xFFFFFFFF), id="too-long"),
        pytest.param(framed(b"\xc1"), id="no-msgpack"),
        pytest.param(framed(b"\x81\xa4type\xa2\xff\xff"), id="no-utf8"),
        pytest.param(framed(frames.encoded({"type": "Ready", "cpu_so_far": "much"})), id="another-shape"),
        pytest.param(framed(frames.encoded({"type": "Stop"})), id="another-speaker"),
    ],
)
def test_what_nobody_has_said_ends_that_child_at_once_and_the_worker_lives(tmp_path: Path, garbage: str) -> None:
    async def play(ground: Ground) -> None:
        job, after = await tasks.writes_on_the_line.enqueue(garbage), await tasks.add.enqueue(1)
        await ground.drain(children=1)  # raises what ended the worker
        row, run = await ground.fetch(job.id), await ground.run(job.id)
        assert (row.state, row.last_error) == ("dead", "ProcessDied: its line is garbled")
        assert (run.exit_code, run.cpu_us is not None) == (-signal.SIGKILL, True)
        assert (await after.result(timeout=1))[0] == 2

    on_ground(tmp_path, play)


GARBLING = """
import os
from worker.isolated import app, line_of_this_child
for fd in line_of_this_child():
    os.write(fd, b"imported, at your service")
"""


def test_an_import_that_writes_on_the_line_is_a_child_that_does_not_come_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "garbling.py").write_text(GARBLING)
    monkeypatch.syspath_prepend(str(tmp_path))

    async def play(ground: Ground) -> None:
        nursery = Nursery()
        try:
            with pytest.raises(ChildUnstartable, match="imports garbling:app: its line is garbled"):
                await Child.start(tasks.app.client, nursery, "garbling:app")
        finally:
            await nursery.close()

    on_ground(tmp_path, play)


def test_a_child_that_does_not_understand_its_worker_ends(tmp_path: Path) -> None:
    """It would not hear that it should stop, nor that its worker is gone."""

    async def play(ground: Ground) -> None:
        nursery = Nursery()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            try:
                offspring = await nursery.fork(theirs, 0)
                ours.sendall(frames.packed(introduction("worker.isolated:app", tasks.app.client.url)))
                said = await asyncio.to_thread(frames.receive, ours, frames.report)
                assert isinstance(said, frames.Ready)
                ours.sendall(b"who are you, and what is this?")
                async with asyncio.timeout(tasks.PATIENCE):
                    assert (await offspring.gone).code == -signal.SIGKILL
            finally:
                await nursery.close()

    on_ground(tmp_path, play)


def test_a_job_that_is_too_long_for_the_line_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(ground: Ground) -> None:
        job, after = await tasks.waits.enqueue("x" * 10_000), await tasks.add.enqueue(1)
        monkeypatch.setattr(frames, "LONGEST", 8_000)
        await ground.drain(children=1)
        row = await ground.fetch(job.id)
        assert (row.state, "are too much for one message" in row.last_error) == ("dead", True)
        assert (await after.result(timeout=1))[0] == 2

    on_ground(tmp_path, play)


# ------------------------------------------------------------------------------------------ what is said for another run


def test_what_is_said_for_another_run_counts_for_nobody_and_that_child_gets_no_other_job(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        job, after = await tasks.speaks_for_another_run.enqueue(), await tasks.add.enqueue(1)
        await ground.drain(children=1)
        run = await ground.run(job.id)
        assert (run.status, run.artifacts or (), run.log_path) == ("completed", (), None)
        assert await job.result(timeout=1) != (await after.result(timeout=1))[1]

    on_ground(tmp_path, play)


def test_a_fork_that_returns_twice_does_not_end_the_next_job(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        await tasks.forks_and_both_return.enqueue()
        victim = await tasks.fails_after_a_while.enqueue()
        await ground.drain(children=1)
        row = await ground.fetch(victim.id)
        assert (row.state, row.last_error) == ("dead", "ValueError: mine")

    on_ground(tmp_path, play)


@pytest.mark.parametrize(("how", "code"), [("returns", 0), ("raises", 1), ("exits", 3)])
def test_a_copy_that_comes_out_of_the_handler_ends_as_a_program_would(tmp_path: Path, how: str, code: int) -> None:
    async def play(ground: Ground) -> None:
        job = await tasks.waits_for_its_copy.enqueue(how)
        await ground.drain(children=1)
        assert await job.result(timeout=1) == code

    on_ground(tmp_path, play)


def test_copies_of_a_handler_have_no_part_in_its_line(tmp_path: Path) -> None:
    """Nobody would understand those who speak at once."""

    async def play(ground: Ground) -> None:
        job = await tasks.logs_from_several_processes.enqueue()
        await ground.drain(children=1)
        run = await ground.run(job.id)
        assert (run.status, run.log_path) == ("completed", None)

    on_ground(tmp_path, play)


@pytest.mark.parametrize(("has_an_ear", "code"), [(False, -signal.SIGTERM), (True, 5)], ids=["usual", "its-own"])
def test_a_handler_can_terminate_a_process_that_it_has_forked(tmp_path: Path, has_an_ear: bool, code: int) -> None:
    async def play(ground: Ground) -> None:
        job = await tasks.ends_its_own_helper.enqueue(has_an_ear)
        await ground.drain(children=1)
        assert await job.result(timeout=1) == code

    on_ground(tmp_path, play)


# ------------------------------------------------------------------------------------------------ words that are no UTF-8


@pytest.mark.parametrize(
    ("how", "error"),
    [("returns", None), ("raises", "ValueError: caf\\udce9.csv"), ("rejects", "caf\\udce9.csv")],
)
def test_a_handler_may_speak_of_a_file_whose_name_is_no_utf8(tmp_path: Path, how: str, error: str | None) -> None:
    async def play(ground: Ground) -> None:
        job = await tasks.speaks_of_a_strange_file.enqueue(how)
        await ground.drain(children=1)
        run = await ground.run(job.id)
        assert (run.error, run.artifacts) == (error, ("caf\\udce9.csv",))
        first, second = ground.log_of(run).splitlines()
        assert (first.endswith("read caf\\udce9.csv"), second.endswith("shop: caf\\udce9.csv")) == (True, True)

    on_ground(tmp_path, play)


def test_a_child_is_told_where_it_is_whatever_the_names_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, tasks.STRANGE, tmp_path, "last"])
    monkeypatch.setattr(sys, "argv", ["program", tasks.STRANGE, "\ud800"])

    async def play(ground: Ground) -> None:
        job = await tasks.tells_where_it_is.enqueue()
        await ground.drain(children=1)
        known = await job.result(timeout=1)
        assert known[:3] == ["'program'", ascii(tasks.STRANGE), ascii("\\ud800")]
        assert known[-2:] == [ascii(tasks.STRANGE), "'last'"], "a path that is no text is passed over, as it is here"

    on_ground(tmp_path, play)


def test_a_program_gets_words_that_are_no_utf8_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALSO_STRANGE", tasks.STRANGE)
    there = tmp_path / tasks.STRANGE
    there.mkdir()

    async def play(ground: Ground) -> None:
        job = await tasks.prints_strange_words.enqueue(there=str(tmp_path))
        await ground.drain(children=1)
        assert ground.log_of(await ground.run(job.id)) == ascii([tasks.STRANGE, tasks.STRANGE, str(there)]) + "\n"

    on_ground(tmp_path, play)


def test_words_that_no_program_can_be_given_are_that_jobs_failure(tmp_path: Path) -> None:
    forgotten: list[object] = []

    async def play(ground: Ground) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: forgotten.append(context["message"]))
        job, after = await tasks.cannot_be_said.enqueue(), await tasks.add.enqueue(1)
        await ground.drain(children=1)
        row = await ground.fetch(job.id)
        assert (row.state, row.last_error.split(":")[0]) == ("dead", "UnicodeEncodeError")
        assert (await after.result(timeout=1))[0] == 2
        gc.collect()

    on_ground(tmp_path, play)
    assert forgotten == [], "nobody waits for what was never asked for"


# ------------------------------------------------------------------------------------------------------- late signals


@pytest.mark.parametrize("kill_after", ["300ms", "1h"], ids=["SIGKILL", "SIGTERM"])
def test_a_signal_that_comes_too_late_does_not_hit_the_next_job(tmp_path: Path, kill_after: str) -> None:
    """The fork server is slow, as on a loaded machine: the handler ends by itself before its signals are sent."""

    async def play(ground: Ground) -> None:
        gate, begun = tmp_path / "gate", tmp_path / "gate.begun"
        late, victim = await tasks.ends_late.enqueue(str(gate)), await tasks.runs_a_program.enqueue(1.0)
        async with ground.working(children=1):
            await ground.until(lambda: begun.exists() and begun.read_text())
            fork_server = int(begun.read_text())
            os.kill(fork_server, signal.SIGSTOP)
            try:
                await asyncio.sleep(0.7)  # its timeout and kill_after pass
                gate.touch()
                await ground.until_ended(late.id)
                await asyncio.sleep(0.3)  # the next one could begin
            finally:
                os.kill(fork_server, signal.SIGCONT)
            row = await ground.until_state(victim.id, "succeeded", "dead")
            assert (row.last_error, row.result) == ("", b"0")

    on_ground(tmp_path, play, kill_after=kill_after)


# --------------------------------------------------------------------------------------------- what a job leaves behind


def test_what_a_left_thread_says_is_not_written_to_the_next_job(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        await tasks.leaves_a_thread.enqueue()
        victim = await tasks.naps.enqueue(0.3)
        await ground.drain(children=1)
        row, run = await ground.fetch(victim.id), await ground.run(victim.id)
        assert (run.status, run.artifacts or (), run.log_path, row.progress) == ("completed", (), None, None)

    on_ground(tmp_path, play)


def test_what_is_said_after_the_end_is_not_even_sent(tmp_path: Path) -> None:
    """The pool of the event loop is the child's, so it goes on; were it heard, its child would not be used again."""

    async def play(ground: Ground) -> None:
        jobs = [await tasks.leaves_work_in_the_pool.enqueue(), await tasks.naps.enqueue(0.3), await tasks.naps.enqueue(0)]
        await ground.drain(children=1)
        assert len({await job.result(timeout=1) for job in jobs}) == 1
        assert [(await ground.run(job.id)).log_path for job in jobs] == [None] * 3

    on_ground(tmp_path, play)


@pytest.mark.parametrize("what", ["leaves_a_thread", "leaves_a_process"])
def test_a_child_in_which_something_goes_on_gets_no_other_job(tmp_path: Path, what: str) -> None:
    async def play(ground: Ground) -> None:
        first, second = await getattr(tasks, what).enqueue(), await tasks.naps.enqueue(0)
        await ground.drain(children=1)
        assert await first.result(timeout=1) != await second.result(timeout=1)

    on_ground(tmp_path, play)


def test_what_windlass_itself_keeps_in_a_child_does_not_wear_it(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        first, then = await tasks.naps.enqueue(0), await tasks.enqueues.enqueue()
        last = await tasks.naps.enqueue(0)
        await ground.drain(children=1)
        assert (await ground.fetch(then.id)).state == "succeeded"
        assert await first.result(timeout=1) == await last.result(timeout=1)

    on_ground(tmp_path, play)


@pytest.mark.parametrize("timer", [signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF])
def test_a_timer_that_was_left_does_not_kill_the_next_job(tmp_path: Path, timer: int) -> None:
    async def play(ground: Ground) -> None:
        await tasks.sets_a_timer.enqueue(int(timer))
        victim = await tasks.burns.enqueue(0.4)
        await ground.drain(children=1)
        row = await ground.fetch(victim.id)
        assert (row.state, row.last_error) == ("succeeded", "")

    on_ground(tmp_path, play)


def test_the_next_job_is_where_the_worker_is_and_deaf_to_sigterm_again(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        first, second = await tasks.goes_elsewhere.enqueue(), await tasks.is_told_to_end.enqueue()
        await ground.drain(children=1)
        assert await second.result(timeout=1) == (os.getcwd(), await first.result(timeout=1))

    on_ground(tmp_path, play)


def test_what_the_import_of_the_app_has_started_may_go_on() -> None:
    """A thread that samples, a timer of a profiler."""
    end = threading.Event()
    threads = [threading.Thread(target=end.wait, name=name) for name in ("of the app", "of a job")]
    threads[0].start()
    signal.setitimer(signal.ITIMER_VIRTUAL, 1_000)
    helper = subprocess.Popen(["sleep", str(tasks.PATIENCE)])
    try:
        surroundings = leftovers.Surroundings()
        assert surroundings.restored()
        assert signal.getitimer(signal.ITIMER_VIRTUAL)[0] > 0
        threads[1].start()
        assert not surroundings.restored()
    finally:
        end.set()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        helper.kill()
        helper.wait()


def test_a_child_whose_directory_is_gone_gets_no_other_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    surroundings = leftovers.Surroundings()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").rmdir()
    assert not surroundings.restored()


# -------------------------------------------------------------------------------------------- programs that stop in order


@pytest.mark.parametrize(
    ("why", "state", "says"),
    [
        ("timeout", "dead", "TimeoutError: it ran longer than its timeout of 1 s"),
        ("cancel", "cancelled", "not wanted"),
        ("shutdown", "queued", ""),
    ],
)
def test_a_program_that_was_told_to_stop_and_ends_in_order_has_not_done_its_work(
    tmp_path: Path, why: str, state: str, says: str
) -> None:
    """Exit code 0 after a SIGTERM is how well-behaved programs stop half-way, and no success."""

    async def play(ground: Ground) -> None:
        gate = tmp_path / "gate"
        options: Any = {"timeout": "1s"} if why == "timeout" else {}
        job = await tasks.polite.using(**options).enqueue(gate=str(gate))
        async with ground.working(children=1):
            await ground.until(Path(f"{gate}.begun").exists)
            if why == "cancel":
                await job.cancel("not wanted")
            if why != "shutdown":
                await ground.until_state(job.id, "dead", "cancelled", "succeeded")
        row, run = await ground.fetch(job.id), await ground.run(job.id)
        assert (row.state, row.last_error, run.exit_code) == (state, says, 0)

    on_ground(tmp_path, play, lease="600ms", grace="100ms", kill_after="10s")
