"""The demo as a person sees it: what is there to do, who does it, who is killed, what came out."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol

from windlass.client import Client
from windlass.coordinator.sampling import KEEP
from windlass.core.duties import RollUpUsage, SampleQueues
from windlass.core.sampling import MINUTE
from windlass.core.usage import LATE
from windlass.demo.check import Verdict, compare
from windlass.tasks import PreparedJob
from windlass.urls import url_of_file

QUEUES: Final = {"mail": 500, "images": 300, "ledger": 200}
TOTAL: Final = sum(QUEUES.values())
KILL_AT: Final = (0.25, 0.55)  # of all jobs done
PATIENCE: Final = 50.0  # seconds; the demo takes about ten


class Display(Protocol):
    def say(self, text: str) -> None: ...
    def update(self, left: dict[str, int]) -> None: ...


class Plain:
    """Lines, for a pipe or a log."""

    def __init__(self) -> None:
        self._last = -1

    def say(self, text: str) -> None:
        print(text, flush=True)  # noqa: T201

    def update(self, left: dict[str, int]) -> None:
        done = TOTAL - sum(left.values())
        if done * 10 // TOTAL > self._last:
            self._last = done * 10 // TOTAL
            self.say(f"  {done:4} of {TOTAL} done; waiting or running: " + ", ".join(f"{q} {n}" for q, n in left.items()))


class Live:
    """Bars, for a terminal."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._bars = {queue: progress.add_task(queue, total=count) for queue, count in QUEUES.items()}

    def say(self, text: str) -> None:
        self._progress.console.print(text, highlight=False)

    def update(self, left: dict[str, int]) -> None:
        for queue, bar in self._bars.items():
            self._progress.update(bar, completed=QUEUES[queue] - left[queue])


@contextmanager
def display() -> Iterator[Display]:
    if not sys.stdout.isatty():
        yield Plain()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("  {task.description:8}"), BarColumn(40), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress:
        yield Live(progress)


def main() -> int:
    directory = Path(tempfile.mkdtemp(prefix="windlass-demo-"))
    url = url_of_file(directory / "demo.db")
    log = directory / "handlers.log"
    log.touch()
    os.environ |= {"WINDLASS_URL": url, "WINDLASS_DEMO_LOG": str(log)}
    return asyncio.run(play(url, log))


async def play(url: str, log: Path) -> int:
    from windlass.demo.tasks import app

    with display() as screen:
        screen.say(f"A fresh store: {url.removeprefix('sqlite:///')}")
        accepted = await enqueue()
        screen.say(
            f"{len(accepted)} jobs are stored: mail fails now and then, images are made in threads, and ledger jobs must "
            "never run twice."
        )
        workers = start_workers()
        screen.say("Two worker processes start under a supervisor.")
        try:
            await watch(app.client, screen, log)
        finally:
            stop(workers)
    verdict = await compare(app.client, accepted, log)
    await note_minutes(app.client)
    await app.close()
    return report(verdict, url)


async def enqueue() -> list[str]:
    """All in one transaction, mixed, so that every queue has something to do at any time."""
    from windlass.demo.tasks import app, make_thumbnail, send_email, transfer

    jobs: list[tuple[float, PreparedJob[Any]]] = []
    for queue, task in (("mail", send_email), ("images", make_thumbnail), ("ledger", transfer)):
        jobs += [(n / QUEUES[queue], task.job(n)) for n in range(QUEUES[queue])]
    mixed = [job for _, job in sorted(jobs, key=lambda entry: entry[0])]
    return [job.id for job in await app.enqueue_many(mixed)]


def start_workers() -> subprocess.Popen[bytes]:
    options = "--processes 2 --concurrency 4 --threads 2 --quiet".split()
    command = [sys.executable, "-m", "windlass", "worker", "windlass.demo.tasks:app", *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0)  # noqa: S603


def stop(workers: subprocess.Popen[bytes]) -> None:
    workers.terminate()
    try:
        workers.wait(15)
    except subprocess.TimeoutExpired:
        workers.kill()


async def watch(client: Client, screen: Display, log: Path) -> None:
    """Until everything has ended; on the way a worker is killed, twice, in the middle of its work."""
    victims = list(KILL_AT)
    async with asyncio.timeout(PATIENCE):
        while True:
            left = dict.fromkeys(QUEUES, 0)
            for entry in await client.driver.count(now=client.now()):
                if entry.label != "dead":
                    left[entry.queue] += entry.jobs
            screen.update(left)
            done = 1 - sum(left.values()) / TOTAL
            if done == 1:
                return
            if victims and done >= victims[0] and (pid := latest_worker(log)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    victims.pop(0)
                    screen.say(f"  kill -9 {pid}: a worker dies in the middle of its jobs, without a word.")
            await asyncio.sleep(0.1)


async def note_minutes(client: Client) -> None:
    """Samples and usage of the minutes that the demo took, as a leader that lives on would note them: for the charts of
    whoever looks around."""
    now = client.now()
    for at in (now, now - now % MINUTE + MINUTE):
        await client.driver.maintain(SampleQueues(keep=KEEP), epoch=None, now=at)
    await client.driver.maintain(RollUpUsage(until=now, limit=2 * TOTAL), epoch=None, now=now + LATE)


def latest_worker(log: Path) -> int | None:
    """A process that has just begun a job."""
    lines = log.read_text().splitlines()
    return int(lines[-1].split()[-1]) if lines else None


def command_here() -> str:
    """`windlass`, or where it is when the shell would not find it."""
    return "windlass" if shutil.which("windlass") else os.path.relpath(Path(sys.executable).parent / "windlass")


def report(verdict: Verdict, url: str) -> int:
    out: list[str] = ["", "What became of them:"]
    for queue in QUEUES:
        endings = {state: count for (q, state), count in sorted(verdict.ended.items()) if q == queue}
        out.append(f"  {queue:8}" + "  ".join(f"{count:4} {state}" for state, count in endings.items()))
    out.append(f"{verdict.runs} executions for {TOTAL} jobs; {verdict.cut_off} were cut off by the kills and begun again,")
    out.append(f"{verdict.repeated} of them after their work was done, before their worker could say so.")
    if verdict.problems:
        out += ["", "The store and the handlers' own log DISAGREE:", *(f"  {problem}" for problem in verdict.problems[:20])]
    else:
        out.append("Checked against the handlers' own log: nothing lost, nothing repeated after success, and no ledger")
        out.append("job started twice.")
    command = command_here()
    out += ["", "Look around:", f"  export WINDLASS_URL={url}"]
    out += [f"  {command} {words}" for words in ("serve", "jobs list", "dlq list", "queues list")]
    out += ["Start your own:", f"  {command} init", ""]
    print("\n".join(out))  # noqa: T201
    return 1 if verdict.problems else 0
