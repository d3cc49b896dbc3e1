"""`windlass audit`, and in whose name commands change things."""

from __future__ import annotations

import getpass
from collections.abc import Callable

from cli.conftest import Cli


def test_commands_act_as_whoever_types_them(cli: Cli, enqueue: Callable[..., str]) -> None:
    job = enqueue("hello", "name=ada")
    cli("jobs", "priority", job, "7")
    cli("jobs", "cancel", job, "--reason", "not wanted")
    cli("queues", "pause", "default")
    me = f"cli:{getpass.getuser()}"
    found = cli("audit", "--json").json
    assert [(line["actor"], line["action"], line["subject"]) for line in found["lines"]] == [
        (me, "queue.pause", "queue:default"), (me, "job.cancel", f"job:{job}"), (me, "job.priority", f"job:{job}"),
    ]  # fmt: skip
    shown = cli("jobs", "show", job, "--json").json
    assert shown["job"]["headers"] == {"windlass-by": me}


def test_the_log_is_read_by_who_and_what(cli: Cli, enqueue: Callable[..., str]) -> None:
    jobs = [enqueue("hello", "name=ada") for _ in range(3)]
    for job in jobs:
        cli("jobs", "cancel", job)
    done = cli("audit", "--action", "job", "--subject", f"job:{jobs[0]}")
    assert done.out.count("job.cancel") == 1
    assert "nobody has changed anything like that" in cli("audit", "--actor", "token:ci").err
    assert "nobody has changed anything like that" in cli("audit", "--since", "0s", "--action", "queue").err
    first = cli("audit", "--limit", "2")
    assert f"job:{jobs[2]}" in first.out
    assert "--cursor" in first.err
    assert cli("audit", "--cursor", "-5").err.startswith("error: cursor: must be a whole number")
    cursor = cli("audit", "--limit", "2", "--json").json["cursor"]
    assert f"job:{jobs[0]}" in cli("audit", "--limit", "2", "--cursor", str(cursor)).out


def test_a_sweep_shows_its_filter(cli: Cli, enqueue: Callable[..., str], drain: Callable[[], object]) -> None:
    for n in range(2):
        enqueue("send", "to=ada", f"n={n}")
    drain()
    cli("dlq", "replay", "--queue", "mail")
    done = cli("audit")
    assert "2 jobs" in done.out
    assert "state=dead queue=mail" in done.out


def test_what_has_a_telling_name_is_shown_when_asked_for(cli: Cli) -> None:
    job = cli("enqueue", "login", "password=hunter2", "user=ada", "--json").json["job_id"]
    assert "hunter2" not in cli("jobs", "show", job).out
    assert cli("jobs", "show", job, "--json").json["job"]["redacted"] is True
    assert "hunter2" in cli("jobs", "show", job, "--reveal").out
