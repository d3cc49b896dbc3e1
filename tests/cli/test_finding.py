"""`jobs list` with every filter, `jobs bulk`, `dlq` and `top`, as they are typed."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windlass.cli.top import spark

from .conftest import Cli, Done


@pytest.fixture
def store(cli: Cli) -> Callable[..., str]:
    def put(*typed: str) -> str:
        job_id: str = cli("enqueue", "t", *typed, "--json").json["job_id"]
        return job_id

    return put


def ids(done: Done) -> list[Any]:
    return [job["id"] for job in done.json["jobs"]]


def test_jobs_are_listed_by_any_filter_from_either_end(cli: Cli, store: Callable[..., str]) -> None:
    first, second = store("--queue", "mail"), store("--delay", "1h")
    assert ids(cli("jobs", "list", "--label", "queued", "--json")) == [first]
    assert ids(cli("jobs", "list", "--since", "1h", "--json")) == [second, first]
    assert ids(cli("jobs", "list", "--oldest-first", "--json")) == [first, second]
    assert ids(cli("jobs", "list", "--until", "2001-01-01T00:00Z", "--json")) == []
    assert ids(cli("jobs", "list", "--until", "2001-01-01", "--json")) == []
    for option in ("--tag", "--group", "--schedule", "--worker", "--error"):
        assert ids(cli("jobs", "list", option, "nobody's", "--json")) == []
    wrong = cli("jobs", "list", "--since", "yesterday")
    assert wrong.code == 2
    assert "24h" in wrong.err
    page = cli("jobs", "list", "--limit", "1", "--json").json
    foreign = cli("jobs", "list", "--queue", "mail", "--cursor", page["cursor"])
    assert foreign.code == 2
    assert "another listing" in foreign.err


def test_a_search_that_stops_says_how_to_go_on(
    cli: Cli, store: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr("windlass.admin.listing.BUDGET", 1)
    store()
    store()
    done = cli("jobs", "list", "--tag", "none")
    assert "looked at 1 job; go on from there: --cursor " in done.err


def test_many_jobs_are_changed_after_a_look(cli: Cli, store: Callable[..., str]) -> None:
    here, other = store("--queue", "mail"), store()
    assert cli("jobs", "bulk", "cancel").code == 2, "nothing narrows it"
    assert cli("jobs", "bulk", "cancel", "--queue", "mail", "--dry-run").out == "cancel: 1 job match\n"
    unsure = cli("jobs", "bulk", "cancel", "--queue", "mail")
    assert (unsure.code, "1 job would be changed; say --yes" in unsure.err) == (2, True)
    assert cli("jobs", "bulk", "priority", "--queue", "mail", "--priority", "4", "--yes").out == "priority: 1 done\n"
    done = cli("jobs", "bulk", "cancel", "--queue", "mail", "--yes", "--json").json
    assert (done["done"], done["left"], done["matched"], done["exact"]) == ([here], {}, 1, True)
    assert cli("jobs", "bulk", "cancel", "--queue", "mail", "--yes").out == "cancel: 0 jobs match\n"
    assert cli("jobs", "bulk", "move", "--all", "--yes").code == 2, "where to"
    assert cli("jobs", "bulk", "retry", "--label", "queued", "--dry-run").code == 2
    assert ids(cli("jobs", "list", "--state", "queued", "--json")) == [other]


def test_top_shows_things_once_where_nobody_watches(cli: Cli, store: Callable[..., str]) -> None:
    store("--queue", "mail")
    for done in (cli("top"), cli("top", "--once", "--span", "7d")):
        assert done.code == 0
        assert "1 of 1 queue needs attention" in done.out
        assert "mail" in done.out
        assert "no living worker serves it" in done.out
        assert "queued 1" in done.out
    assert len(cli("top", "--json").json["series"]) == 60
    assert cli("top", "--span", "2h").code == 2
    assert cli("top", "--interval", "0").code == 2


def test_top_is_live_in_a_terminal_and_ends_with_q(tmp_path: Path) -> None:
    environment = os.environ | {"WINDLASS_URL": f"sqlite:///{tmp_path}/jobs.db", "TERM": "xterm", "COLUMNS": "120"}
    windlass = [sys.executable, "-m", "windlass"]
    subprocess.run([*windlass, "enqueue", "t"], env=environment, check=True, capture_output=True)
    screen, terminal = pty.openpty()
    process = subprocess.Popen([*windlass, "top", "--interval", "0.2"], env=environment, stdin=terminal, stdout=terminal)
    os.close(terminal)
    try:
        seen = read_until(screen, b"q to end")
        assert b"queue needs attention" in seen
        read_until(screen, b"q to end")  # drawn again
        os.write(screen, b"xq")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(screen)


def read_until(screen: int, wanted: bytes) -> bytes:
    seen = b""
    deadline = time.monotonic() + 30
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([screen], [], [], 1)[0]:
            seen += os.read(screen, 65_536)
    return seen


def test_a_spark_rises_from_zero_and_leaves_gaps() -> None:
    assert spark([0, 1, None, 4, 8]) == "▁▂ ▅█"
    assert spark([0, 0]) == "▁▁"
    assert spark([None]) == " "
    assert spark([]) == ""
