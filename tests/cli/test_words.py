"""What commands say of what was mistyped, and of what a newcomer cannot know yet."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cli.conftest import Cli
from windlass.admin.views import JobView
from windlass.cli.session import Common
from windlass.cli.watch import PATIENCE, Seen, why_it_waits

Store = Callable[..., str]
Drain = Callable[[], Any]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("worker", "windlass worker needs APP: module:attribute"),
        ("jobs show", "windlass jobs show needs JOB_ID: the job's id"),
        ("jobs list --limit two", "--limit: takes a whole number, such as 20, got 'two'"),
        ("jobs list --limit", "--limit: takes a whole number, such as 20, and none was given"),
        ("jobs list --queue", "--queue: takes a value, and none was given"),
        ("jobs cancel x --reason -5s", "and none was given; one that begins with - is written --reason=-5s"),
        ("worker tasks more", "more is more than windlass worker takes"),
    ],
)  # fmt: skip
def test_what_is_missing_or_of_another_kind_is_told_in_plain_words(cli: Cli, typed: str, said: str) -> None:
    done = cli(*typed.split())
    assert done.code == 2
    assert said in done.err


def test_what_nobody_checked_is_said(cli: Cli) -> None:
    bare = cli("enqueue", "nope", "to=ada")
    assert bare.code == 0
    assert "not checked: whether there is a task 'nope'" in bare.err
    assert "stored in the queue default" in bare.err
    assert "--app tasks:app" in bare.err
    assert "queue default" not in cli("enqueue", "nope", "--queue", "mail").err
    assert "not checked" not in cli("enqueue", "--app", "tasks", "hello", "name=Ada").err


def test_an_instant_without_a_zone_is_told_how_to_write_one_on_a_command_line(cli: Cli) -> None:
    done = cli("enqueue", "hello", "--run-at", "2030-01-01T09:00:00")
    assert done.code == 2
    assert "2030-01-01T09:00:00Z for UTC" in done.err
    assert "datetime" not in done.err
    assert cli("enqueue", "hello", "--run-at", "2030-01-01T09:00:00Z").code == 0


def test_a_part_of_an_id_is_told_that_ids_are_given_whole(cli: Cli, enqueue: Store) -> None:
    job_id = enqueue("hello", "name=Ada")
    assert "an id is to be given whole" in cli("jobs", "show", job_id[:8]).err
    cut_wrong = cli("jobs", "show", job_id[:-4] + "0000").err
    assert "given whole" not in cut_wrong
    assert "pruned or deleted" in cut_wrong


def test_a_job_that_was_refused_for_its_arguments_is_offered_others(cli: Cli, drain: Drain) -> None:
    job_id = cli("enqueue", "hello", "nmae=Ada").out.strip()
    drain()
    told = cli("jobs", "show", job_id).out
    steps = told[told.index("What you can do next") :]
    assert steps.index("enqueue hello --app APP name=value") < steps.index("jobs retry")
    assert "jobs show" in cli("jobs", "why", job_id).out


def test_watching_a_job_that_does_not_begin_says_how_to_find_out_why(capsys: pytest.CaptureFixture[str]) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    def said(state: str) -> str:
        seen = Seen(cast("JobView", SimpleNamespace(id="a", state=state)))
        asyncio.run(why_it_waits(seen, Common(), sleep))
        return capsys.readouterr().err

    assert "windlass jobs why a" in said("queued")
    assert said("running") == ""
    assert slept == [PATIENCE, PATIENCE]


@pytest.mark.parametrize("command", [("serve",), ("dev", "tasks")])
def test_a_port_in_use_is_told_before_anything_runs(cli: Cli, command: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        cli("enqueue", "--app", "tasks", "hello", "name=Ada")
        done = cli(*command, "--port", str(port))
    assert done.code == 2
    assert f"port: {port} of 127.0.0.1 is in use already" in done.err
    assert "--port 0" in done.err
    assert "Errno" not in done.err
    assert "serves" not in done.err, "no worker had begun"


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("sqlite://jobs.db", "sqlite:///jobs.db"), ("jobs.db", "sqlite:///jobs.db"), ("sqlite:jobs.db", "sqlite:///jobs.db"),
        ("/var/lib/jobs.db", "sqlite:////var/lib/jobs.db"), ("sqlite+aiosqlite:///x.db", "sqlite:///x.db"),
        ("postgresql+psycopg://ada:canary@h/db", "postgresql://ada:***@h/db"),
        ("postgresq://h/db", "postgresql://h/db"),
    ],
)  # fmt: skip
def test_a_url_that_is_nearly_one_is_told_what_was_meant(cli: Cli, url: str, meant: str) -> None:
    done = cli("jobs", "list", "--store", url)
    assert done.code == 2
    assert f"did you mean '{meant}'?" in done.err
    assert "canary" not in done.err


def test_common_options_may_stand_behind_the_group(cli: Cli, enqueue: Store) -> None:
    job = enqueue("hello", "name=ada")
    [found] = cli("jobs", "--json", "list").json["jobs"]
    assert found["id"] == job
    assert cli("jobs", "--store", "sqlite:///elsewhere.db", "list").code == 4


def test_a_group_without_its_command_says_what_is_missing(cli: Cli) -> None:
    done = cli("jobs", "--json")
    assert (done.code, done.json["error"]["message"]) == (2, "windlass jobs needs a command before --json")
    assert done.json["error"]["next"] == "windlass jobs --help"


@pytest.mark.parametrize("path", [("jobs",), ("jobs", "list"), ("worker",)])
def test_help_may_be_asked_for_as_a_command(cli: Cli, path: tuple[str, ...]) -> None:
    asked = cli("help", *path)
    assert asked.code == 0
    assert asked.out == cli(*path, "--help").out
