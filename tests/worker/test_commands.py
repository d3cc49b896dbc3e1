"""Commands: a program instead of a function, with the same leases, retries, timeouts and cancellation."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from windlass import Retry, Windlass, fixed
from windlass.errors import InvalidInput, ProcessDied
from windlass.policies import rule
from windlass.worker.processes.nursery import Nursery

from . import isolated
from .isolated import Ground, is_gone, on_ground, parent_of

ONCE = Retry(max_attempts=1)
PRINTS = "import sys, os; print(sys.argv[1:]); print(os.environ.get('SHOP'), os.getcwd(), file=sys.stderr)"


@pytest.fixture(autouse=True)
def _own_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated.app, "tasks", {})


def python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-c", code.replace("{", "{{").replace("}", "}}"), *words]


def test_each_element_is_one_argument_whatever_a_field_holds_and_no_shell_reads_it(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        prints = isolated.app.command(
            "prints", python(PRINTS, "{path}", "--rows={rows}", "{{x}}"), env={"SHOP": "{path}!"}, cwd=str(tmp_path)
        )
        job = await prints.enqueue(path="a b; touch owned $(id) '", rows=3)
        await ground.drain()
        run = await ground.run(job.id)
        assert (run.status, run.exit_code) == ("completed", 0)
        printed = ground.log_of(run)
        assert str(["a b; touch owned $(id) '", "--rows=3", "{x}"]) in printed
        assert f"a b; touch owned $(id) '! {tmp_path}" in printed
        assert not (tmp_path / "owned").exists()
        assert run.cpu_us is not None
        assert run.peak_rss is not None
        assert (await ground.fetch(job.id)).result is None

    on_ground(tmp_path, play)


def test_another_exit_code_than_0_is_a_failure_by_policy_and_quotes_the_last_output(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        twice = Retry(max_attempts=2, backoff=fixed(0))
        fails = isolated.app.command("fails", python("import sys; print('no space left'); sys.exit(9)"), retry=twice)
        job = await fails.enqueue()
        await ground.drain()
        row, runs = await ground.fetch(job.id), await ground.runs(job.id)
        assert (row.state, row.dead_kind, row.dead_reason) == (
            "dead",
            "exhausted",
            "ProcessDied: exit code 9: no space left",
        )
        assert [(run.status, run.exit_code, ground.log_of(run)) for run in runs] == [("failed", 9, "no space left\n")] * 2

    on_ground(tmp_path, play)


def test_a_rule_knows_the_failure_of_a_program_by_its_name(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        fails = isolated.app.command("fails", ["false"], retry=Retry(rules=(rule(ProcessDied, dead=True),)))
        job = await fails.enqueue()
        await ground.drain()
        row = await ground.fetch(job.id)
        assert (row.state, row.dead_kind, row.executions) == ("dead", "rejected", 1)

    on_ground(tmp_path, play)


def test_declared_artifacts_that_are_there_are_kept_also_after_a_failure(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        code = "import sys; [open(n, 'w') for n in ('b.csv', 'a.csv', 'dump[1]', 'other')]; sys.exit(1)"
        writes = isolated.app.command(
            "writes", python(code), cwd=str(tmp_path), artifacts=["{name}", "*.csv", "missing"], retry=ONCE
        )
        job = await writes.enqueue(name="dump[1]")
        await ground.drain()
        run = await ground.run(job.id)
        assert (run.status, run.artifacts) == ("failed", ("dump[1]", "a.csv", "b.csv"))

    on_ground(tmp_path, play)


def test_a_program_that_cannot_be_run_is_a_failure_by_policy_with_the_reason(tmp_path: Path) -> None:
    """Another machine may have it, or this one may in a minute."""

    async def play(ground: Ground) -> None:
        twice = Retry(max_attempts=2, backoff=fixed(0))
        missing = isolated.app.command("missing", ["no-such-program"], retry=twice)
        nowhere = isolated.app.command("nowhere", ["true"], cwd=str(tmp_path / "nowhere"), retry=ONCE)
        jobs = [await missing.enqueue(), await nowhere.enqueue()]
        await ground.drain()
        first, second = [await ground.fetch(job.id) for job in jobs]
        assert (first.state, first.executions) == ("dead", 2)
        assert "no-such-program cannot be run: [Errno 2] No such file or directory" in (first.dead_reason or "")
        assert "true cannot be run: [Errno 2]" in (second.dead_reason or "")

    on_ground(tmp_path, play)


def test_a_kill_does_not_get_between_the_halves_of_an_order() -> None:
    """An order that does not fit into the socket at once is sent in pieces."""

    async def play() -> None:
        nursery = Nursery()
        read, write = os.pipe()
        try:
            sleeps = await nursery.spawn(["sleep", "60"], {**os.environ}, None, write, 0)
            assert sleeps.pid is not None
            fork_server = parent_of(sleeps.pid)
            os.kill(fork_server, signal.SIGSTOP)
            words = ["x" * 100_000] * 9
            sending = asyncio.create_task(nursery.spawn(["true", *words], {**os.environ}, None, write, 0))
            await asyncio.sleep(0.1)  # what fits is sent
            os.kill(fork_server, signal.SIGCONT)
            time.sleep(0.2)  # noqa: ASYNC251 - there is room again, and the sender has not had its turn
            sleeps.signal(signal.SIGTERM)
            async with asyncio.timeout(10):
                assert (await sleeps.gone).code == -signal.SIGTERM
                assert (await (await sending).gone).code == 0
        finally:
            await nursery.close()
            os.close(read)
            os.close(write)

    asyncio.run(play())


def test_the_time_of_a_program_begins_when_the_program_does(tmp_path: Path) -> None:
    """Not while the fork server is being started, which takes longer than this."""

    async def play(ground: Ground) -> None:
        job = await isolated.app.command("quick", ["true"], timeout="150ms", retry=ONCE).enqueue()
        await ground.drain()
        assert (await ground.fetch(job.id)).state == "succeeded"

    on_ground(tmp_path, play)


SPREADS = """
import os, subprocess, sys, signal
if "deaf" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
beside = subprocess.Popen(["sleep", "60"])
open(sys.argv[1], "w").write(f"{os.getpid()} {beside.pid}")
beside.wait()
signal.pause()
"""


@pytest.mark.parametrize("kind", ["timeout", "cancel"])
@pytest.mark.parametrize("deaf", [False, True], ids=["obeys", "deaf"])
def test_a_timeout_or_a_cancellation_ends_the_whole_group(tmp_path: Path, kind: str, deaf: bool) -> None:
    async def play(ground: Ground) -> None:
        note = tmp_path / "note"
        given: Any = {"timeout": "1500ms"} if kind == "timeout" else {}
        spreads = isolated.app.command("spreads", python(SPREADS, "{note}", "{how}"), retry=ONCE, **given)
        job = await spreads.enqueue(note=str(note), how="deaf" if deaf else "-")
        async with ground.working():
            await ground.until(lambda: note.exists() and note.read_text())
            if kind == "cancel":
                await job.cancel("not wanted")
            await ground.until_state(job.id, "dead" if kind == "timeout" else "cancelled")
            pids = [int(word) for word in note.read_text().split()]
            await ground.until(lambda: all(map(is_gone, pids)))
        run = await ground.run(job.id)
        assert run.exit_code == -(signal.SIGKILL if deaf else signal.SIGTERM)
        if kind == "timeout":
            assert run.error == "TimeoutError: it ran longer than its timeout of 1.5 s"

    on_ground(tmp_path, play, lease="600ms")


def test_what_a_program_has_left_behind_ends_with_it(tmp_path: Path) -> None:
    """And its output, which the other one still holds open, is not waited for."""

    async def play(ground: Ground) -> None:
        code = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid)"
        job = await isolated.app.command("leaves", python(code)).enqueue()
        await ground.drain()
        run = await ground.run(job.id)
        assert run.status == "completed"
        await ground.until(lambda: is_gone(int(ground.log_of(run))))

    on_ground(tmp_path, play)


def test_endless_output_is_bounded_and_harms_nobody(tmp_path: Path) -> None:
    async def play(ground: Ground) -> None:
        code = (
            "import sys; print('begin'); sys.stdout.write('x' * 99 + '\\n' * 1); [print('y' * 99) for _ in range(60_000)]"
        )
        job = await isolated.app.command("floods", python(code + "; print('end')")).enqueue()
        await ground.drain()
        log = ground.log_of(await ground.run(job.id))
        assert log.startswith("begin\n")
        assert log.endswith("end\n")
        assert "bytes were cut out here" in log
        assert len(log) <= 10_000

    on_ground(tmp_path, play, log_limit=10_000)


# ------------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "path: is missing; backup takes path"),
        ({"path": "a", "pth": "b"}, "pth: is not an argument"),
        ({"path": ["a"]}, "path: Expected"),
        ({"path": "a\x00b"}, "path: Expected"),
        ({"path": None}, "path: Expected"),
    ],
)
def test_fields_are_checked_when_a_command_is_enqueued(fields: dict[str, Any], says: str) -> None:
    backup = Windlass("memory://").command("backup", ["pg_dump", "--file={path}"])
    with pytest.raises(InvalidInput, match=says):
        backup.enqueue_sync(**fields)


@pytest.mark.parametrize(
    ("command", "more", "says"),
    [
        ("pg_dump {path}", {}, "command: must be a list such as"),
        ([], {}, "command: must be a list such as"),
        (["{program}"], {}, "command: begins with the program, which no job may choose"),
        (["a", "{}"], {}, "command: '{}' has a field that is not a plain name"),
        (["a", "{x.y}"], {}, "command: .*not a plain name"),
        (["a", "{x!r}"], {}, "command: .*not a plain name"),
        (["a", "{x:>9}"], {}, "command: .*not a plain name"),
        (["a", "{class}"], {}, "command: .*not a plain name"),
        (["a", "{x"], {}, "command: .*write {name} alone"),
        (["a", 5], {}, "command: holds 5, which is not text"),
        (["a", "\x00"], {}, "command: holds .*which is not text"),
        (["a"], {"env": {"A=B": "c"}}, "env: 'A=B' cannot be the name of a variable"),
        (["a"], {"env": {"A": 1}}, "env: holds 1"),
        (["a"], {"artifacts": "*.csv"}, "artifacts: must be a list"),
        (["a"], {"cwd": 5}, "cwd: holds 5"),
        (["a"], {"run": "thread"}, r"run: is not an option of command\(...\)"),
        (["a"], {"name": "b"}, "name"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused_when_it_is_declared(
    command: Any, more: dict[str, Any], says: str
) -> None:
    app = Windlass("memory://")
    with pytest.raises((InvalidInput, TypeError), match=says):
        app.command("backup", command, **more)
    assert app.tasks == {}


def test_two_commands_of_one_name_are_refused() -> None:
    app = Windlass("memory://")
    app.command("backup", ["true"])
    with pytest.raises(InvalidInput, match="name: 'backup' is already the task"):
        app.command("backup", ["false"])
