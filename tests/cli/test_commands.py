"""Every command, on a real store: what it does, what it says, and the exit code it ends with."""

from __future__ import annotations

import asyncio
import io
import json
import shlex
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Cli
from windlass.cli.commands import COMMANDS, GROUPS, OVERVIEW, commands
from windlass.client import Client
from windlass.clock import SECOND
from windlass.config import Settings
from windlass.records import WorkerInfo

Store = Callable[..., str]
Drain = Callable[[], Any]


def paths() -> list[tuple[str, ...]]:
    app = commands()
    found: list[tuple[str, ...]] = [(name,) for name in COMMANDS]
    for group in GROUPS:
        found += [(group, name) for name in app[group] if not name.startswith("-")]
    return found


PATHS = paths()


# ------------------------------------------------------------------------------------------------------- finding one's way


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_every_command_explains_itself_with_an_example(cli: Cli, path: tuple[str, ...]) -> None:
    done = cli(*path, "--help")
    assert done.code == 0
    assert f"  windlass {' '.join(path)}" in done.out or f"$(windlass {' '.join(path)}" in done.out
    assert "4 store unreachable" in done.out
    assert "╭" not in done.out, "no boxes in a pipe"


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_the_overview_names_every_command(cli: Cli, path: tuple[str, ...]) -> None:
    assert path[-1] in cli().out
    assert path[-1] in OVERVIEW


@pytest.mark.parametrize("typed", ["--help", "-h", "help"])
def test_help_of_the_whole_is_the_overview(cli: Cli, typed: str) -> None:
    assert cli(typed).out == cli().out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(["jbos", "list"], "jobs"), (["jobs", "lits"], "list"), (["jobs", "list", "--sttate", "dead"], "--state")],
)
def test_a_typing_error_is_told_what_was_meant(cli: Cli, typed: list[str], meant: str) -> None:
    done = cli(*typed)
    assert done.code == 2
    assert "id you mean" in done.err
    assert meant in done.err
    assert "--help" in done.err
    assert done.out == ""


def test_a_command_without_its_argument_is_a_usage_error(cli: Cli) -> None:
    assert cli("jobs", "show").code == 2
    assert cli("jobs", "retry").code == 2
    assert cli("jobs", "list", "--limit", "many").code == 2


# -------------------------------------------------------------------------------------------------------- the first minutes


def test_what_init_says_to_type_next_works(cli: Cli, tmp_path: Path) -> None:
    """The tests that it writes are run in tests/installed."""
    done = cli("init", "shop", "--json")
    steps = done.json["next"]
    assert steps[0] == "cd shop"
    assert (tmp_path / "shop" / "tasks.py").exists()
    shown = cli("enqueue", "--app", "shop/tasks.py", "hello", "name=Ada", "--json")
    assert shown.code == 0
    assert cli("worker", "shop/tasks.py", "--drain", "--json").json["succeeded"] == 1
    assert cli("jobs", "show", shown.json["job_id"], "--json").json["head"]["result"] == "Hello, Ada!"


@pytest.mark.parametrize("file", ["tasks.py", "test_tasks.py"])
def test_init_never_overwrites(file: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / file).write_text("mine")
    done = cli("init", "shop")
    assert done.code == 3
    assert "left alone" in done.err
    assert [(path.name, path.read_text()) for path in (tmp_path / "shop").iterdir()] == [(file, "mine")]


def test_init_goes_into_a_directory_that_has_a_readme(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "README.md").write_text("mine")
    done = cli("init", "shop")
    assert (done.code, "left shop/README.md as it was" in done.out) == (0, True)
    assert (tmp_path / "shop" / "README.md").read_text() == "mine"
    assert (tmp_path / "shop" / ".gitignore").exists()


@pytest.mark.parametrize("directory", ["shop", "shop/inner", "shop/inner/most"])
def test_init_says_which_part_of_a_path_is_a_file(directory: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("mine")
    done = cli("init", directory)
    assert done.code == 3
    assert f"shop is a file, so that no project can be put into {directory}; nothing was written" in done.err
    assert "try: windlass init ANOTHER_DIRECTORY" in done.err
    assert "Errno" not in done.err
    assert (tmp_path / "shop").read_text() == "mine"


def test_init_says_what_the_system_said_of_a_place_that_cannot_be_made(cli: Cli) -> None:
    place = f"{'long' * 100}/inner"
    done = cli("init", place)
    assert done.code == 3
    assert "cannot be made: File name too long" in done.err
    assert "try: windlass init ANOTHER_DIRECTORY" in done.err


@pytest.mark.parametrize("words", [("sho\udcff",), ("shop", "--name", "sho\udcff"), ("sho\udcff/inner", "--name", "x")])
def test_init_refuses_a_name_that_is_no_text_and_leaves_nothing(words: tuple[str, ...], cli: Cli, tmp_path: Path) -> None:
    """Arguments and directories may be any bytes."""
    before = list(tmp_path.iterdir())
    done = cli("init", *words)
    assert done.code == 3
    assert "\\udcff" in done.err
    assert "is no text in UTF-8" in done.err
    assert "try: windlass init ANOTHER_DIRECTORY --name NAME" in done.err
    assert list(tmp_path.iterdir()) == before


@pytest.mark.parametrize("room", [100, 1_500])
def test_init_without_room_on_the_disk_leaves_what_was_there(room: int, tmp_path: Path) -> None:
    """The system lets a file have so many bytes here: the first one is cut short, or the one that holds a long name."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".gitignore").write_text("mine")
    program = (
        "import resource, sys; from windlass.cli import main; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room})); sys.exit(main())"
    )
    for place in ("mine", "fresh/inner"):
        done = subprocess.run(
            [sys.executable, "-B", "-c", program, "init", place, "--name", "x" * 2_000],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 3, done.stderr
        assert "cannot be made: File too large; nothing was written" in done.stderr
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["mine", "mine/.gitignore"]
    assert (tmp_path / "mine" / ".gitignore").read_text() == "mine"


def test_init_names_the_project_as_its_directory_unless_told(cli: Cli, tmp_path: Path) -> None:
    cli("init", "shop")
    cli("init", "market", "--name", "The {market}")
    titles = [(tmp_path / name / "README.md").read_text().splitlines()[0] for name in ("shop", "market")]
    assert titles == ["# shop", "# The {market}"]


def test_the_worker_says_where_and_what_it_serves(cli: Cli, enqueue: Store, tmp_path: Path) -> None:
    enqueue("hello", "name=Ada")
    done = cli("worker", "tasks", "--drain", "--concurrency", "3", "--lease", "10s", "--grace", "1s")
    assert done.code == 0
    assert str(tmp_path / "windlass.db") in done.err
    assert "default, links, mail" in done.err
    assert "hello" in done.err
    assert "3 async" in done.err
    assert "succeeded 1" in done.out


def test_tick_runs_at_most_its_limit(cli: Cli, enqueue: Store) -> None:
    for n in range(3):
        enqueue("hello", f"name=n{n}")
    assert cli("tick", "tasks", "--limit", "2", "--json").json["succeeded"] == 2
    assert cli("tick", "tasks").out == "claimed 1, succeeded 1\n"
    assert cli("tick", "tasks").out == "nothing was due\n"


def test_a_queue_that_no_task_uses_is_questioned(cli: Cli) -> None:
    done = cli("worker", "tasks", "--drain", "--queues", "mial,default")
    assert done.code == 0
    assert "warning: no task of this app uses the queue 'mial' (did you mean 'mail'?)" in done.err
    assert "'default'" not in done.err


@pytest.mark.parametrize("bad", [["--lease", "1ms"], ["--processes", "0"], ["--grace", "soon"]])
def test_a_worker_that_makes_no_sense_is_refused(cli: Cli, bad: list[str]) -> None:
    assert cli("worker", "tasks", "--drain", *bad).code == 2


# ---------------------------------------------------------------------------------------------------------------- enqueue


def test_values_are_json_where_they_parse_and_text_where_they_do_not(cli: Cli) -> None:
    done = cli("enqueue", "any.type", "n=3", "who=ada lovelace", 'deep={"a": [1]}', "none=null", "--json")
    job = cli("jobs", "show", done.json["job_id"], "--json").json["job"]
    assert job["payload"] == {"n": 3, "who": "ada lovelace", "deep": {"a": [1]}, "none": None}
    assert job["type"] == "any.type"
    assert job["max_attempts"] == 6, "a raw type follows the rules of app.repository"


def test_a_payload_comes_from_the_line_a_file_or_stdin(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.json").write_text('{"from": "file"}')
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"from": "stdin"}'))
    given = {"line": '{"from": "line"}', "file": "@rows.json", "stdin": "-"}
    for name, text in given.items():
        done = cli("enqueue", "t", "--payload", text, "more=1", "--json")
        payload = cli("jobs", "show", done.json["job_id"], "--json").json["job"]["payload"]
        assert payload == {"from": name, "more": 1}


@pytest.mark.parametrize(
    "bad",
    [["nameless"], ["--payload", "[1]"], ["--payload", "{"], ["--payload", "@nowhere.json"], ["--run-at", "tomorrow"],
     ["--run-at", "2030-01-01T09:00:00"], ["--delay", "soon"], ["--delay", "1s", "--run-at", "2030-01-01T09:00:00Z"]],
)  # fmt: skip
def test_what_cannot_be_stored_is_a_usage_error_that_names_it(cli: Cli, bad: list[str], tmp_path: Path) -> None:
    done = cli("enqueue", "t", *bad)
    assert done.code == 2
    assert "error: " in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_the_signature_of_a_task_checks_its_arguments(cli: Cli) -> None:
    wrong = cli("enqueue", "--app", "tasks", "hello", "nmae=Ada")
    assert wrong.code == 2
    assert "did you mean 'name'" in wrong.err
    unknown = cli("enqueue", "--app", "tasks", "helo", "name=Ada")
    assert unknown.code == 2
    assert "did you mean 'hello'" in unknown.err


def test_options_reach_the_job(cli: Cli) -> None:
    done = cli(
        "enqueue", "t", "--queue", "q", "--delay", "1h", "--priority", "9", "--idempotency-key", "k", "--org", "acme",
        "--tag", "a", "--tag", "b", "--json",
    )  # fmt: skip
    job = cli("jobs", "show", done.json["job_id"], "--json").json["job"]
    assert (job["queue"], job["label"], job["priority"], job["org_id"]) == ("q", "scheduled", 9, "acme")
    assert (job["idempotency_key"], job["tags"]) == ("k", ["a", "b"])
    again = cli("enqueue", "t", "--idempotency-key", "k", "--org", "acme", "--json")
    assert again.json["job_id"] == done.json["job_id"]
    assert again.json["existed"] is True


def test_a_store_in_memory_is_said_to_forget(cli: Cli) -> None:
    assert "gone when this command ends" in cli("enqueue", "t", "--store", "memory://").err


# ---------------------------------------------------------------------------------------------------------------- looking


def test_a_list_in_a_pipe_is_plain_and_aligned(cli: Cli, enqueue: Store, drain: Drain) -> None:
    first, second = enqueue("hello", "name=Ada"), enqueue("send", "to=bob")
    drain()
    header, *rows = cli("jobs", "list").out.splitlines()
    assert [row.split()[0] for row in rows] == [second, first], "newest first"
    assert all(row.index(state) == header.index("STATE") for row, state in zip(rows, ("dead", "succeeded"), strict=True))
    assert "\x1b" not in header + "".join(rows)
    assert "ValueError: no mailbox 0 for 'bob'" in rows[0]


def test_filters_take_states_labels_and_other_systems_words(cli: Cli, enqueue: Store, drain: Drain) -> None:
    done, later, dead = enqueue("hello", "name=Ada"), enqueue("hello", "name=B", "--delay", "1h"), enqueue("send", "to=b")
    drain()
    assert ids(cli("jobs", "list", "--state", "queued", "--json")) == [later]
    assert ids(cli("jobs", "list", "--state", "scheduled", "--json")) == [later]
    assert ids(cli("jobs", "list", "--state", "parked", "--json")) == []
    assert ids(cli("jobs", "list", "--state", "success", "--words", "harmonyk", "--json")) == [done]
    assert ids(cli("jobs", "list", "--state", "FAILED", "--words", "scheduler", "--json")) == [dead]
    assert ids(cli("jobs", "list", "--queue", "mail", "--json")) == [dead]
    assert ids(cli("jobs", "list", "--type", "hello", "--json")) == [later, done]
    wrong = cli("jobs", "list", "--state", "ded")
    assert wrong.code == 2
    assert "did you mean 'dead'" in wrong.err
    assert "dlq" in cli("jobs", "list", "--words", "taskharbor").out


def test_pages_go_on_where_the_last_one_ended(cli: Cli, enqueue: Store) -> None:
    stored = [enqueue("hello", f"name=n{n}") for n in range(5)]
    first = cli("jobs", "list", "--limit", "2", "--json")
    rest = cli("jobs", "list", "--limit", "9", "--cursor", str(first.json["cursor"]), "--json")
    assert ids(first) + ids(rest) == stored[::-1]
    assert rest.json["cursor"] is None
    assert f"--cursor {first.json['cursor']}" in cli("jobs", "list", "--limit", "2").err


def test_one_job_is_told_as_a_story(cli: Cli, enqueue: Store, drain: Drain) -> None:
    job_id = enqueue("send", "to=bob", "n=7", "--org", "acme")
    drain()
    page = cli("jobs", "show", job_id).out
    for text in (
        job_id, "dead", "queue      mail", "acme", '{"to": "bob", "n": 7}', "one execution, no retries", "enqueued",
        "started", "failed", "exhausted", "ValueError: no mailbox 7 for 'bob'", f"windlass jobs retry {job_id}", "-v",
    ):  # fmt: skip
        assert text in page, text
    assert "Traceback" not in page
    assert "Traceback (most recent call last)" in cli("jobs", "show", job_id, "--verbose").out


def test_a_chain_is_shown_whole_whichever_link_is_asked_for(cli: Cli, enqueue: Store, drain: Drain) -> None:
    first = enqueue("linked", "x=1")
    drain()
    shown = cli("jobs", "show", first, "--json").json
    assert len(shown["links"]) == 2
    assert shown["links"][0] == first
    assert shown["head"]["id"] == shown["links"][1]
    assert shown["head"]["dead_kind"] == "exhausted"
    assert [run["status"] for run in shown["runs"]] == ["failed", "failed"]
    assert cli("jobs", "show", shown["links"][1], "--json").json["links"] == shown["links"]
    told = cli("jobs", "show", first).out
    assert f"the chain is now dead  {shown['links'][1]}" in told
    assert f"  {first}  superseded  " in told
    assert f"  └─ {shown['links'][1]}  exhausted  " in told
    cli("jobs", "retry", shown["links"][1])
    assert "retried by hand" in cli("jobs", "show", first).out.split("Timeline")[0]


def test_why_tells_what_keeps_a_job_waiting_and_what_to_type(cli: Cli, enqueue: Store) -> None:
    job_id = enqueue("linked", "x=1")
    told = cli("jobs", "why", job_id).out
    assert "no worker is alive" in told
    assert "windlass worker APP --queues" in told
    [reason] = cli("jobs", "why", job_id, "--json").json["reasons"]
    assert reason["kind"] == "no worker"
    assert cli("jobs", "why", "nobody").code == 1


def test_what_a_handler_wrote_cannot_steer_the_terminal(cli: Cli, enqueue: Store, drain: Drain) -> None:
    job_id = enqueue("evil")
    drain()
    for typed in (["jobs", "show", job_id, "-v"], ["jobs", "list"], ["dlq", "list", "--by-error"], ["watch", job_id]):
        done = cli(*typed)
        assert "[2J" in done.out + done.err
        assert "\x1b" not in done.out + done.err


def test_watch_ends_with_the_jobs_own_ending(cli: Cli, enqueue: Store, drain: Drain) -> None:
    good, bad = enqueue("hello", "name=Ada"), enqueue("send", "to=bob")
    drain()
    assert cli("watch", good).code == 0
    lost = cli("watch", bad)
    assert lost.code == 1
    assert "no mailbox" in lost.err
    answer = cli("watch", bad, "--json")
    assert (answer.code, answer.json["job"]["state"]) == (1, "dead")


# ---------------------------------------------------------------------------------------------------------- changing


def test_a_dead_job_is_run_again_and_a_live_one_is_refused(cli: Cli, enqueue: Store, drain: Drain) -> None:
    dead = enqueue("send", "to=bob")
    drain()
    assert cli("jobs", "retry", dead).out.startswith(dead)
    refused = cli("jobs", "retry", dead)
    assert refused.code == 3
    assert "only dead jobs" in refused.err
    assert f"windlass jobs show {dead}" in refused.err
    assert drain()["dead"] == 1


def test_one_refusal_does_not_keep_the_others_from_being_done(cli: Cli, enqueue: Store) -> None:
    waiting, other = enqueue("hello", "name=Ada"), enqueue("hello", "name=B")
    cli("jobs", "cancel", waiting, "--reason", "wrong customer")
    done = cli("jobs", "run-now", waiting, other, "--json")
    assert done.code == 3
    assert [one["job_id"] for one in done.json["changed"]] == [other]
    assert list(done.json["refused"]) == [waiting]
    assert "wrong customer" in cli("jobs", "show", waiting).out


def test_run_now_brings_a_job_forward(cli: Cli, enqueue: Store, drain: Drain) -> None:
    later = enqueue("hello", "name=Ada", "--delay", "1h")
    assert drain()["claimed"] == 0
    assert cli("jobs", "run-now", later).code == 0
    assert drain()["succeeded"] == 1


def test_a_job_moved_to_the_top_runs_first(cli: Cli, enqueue: Store) -> None:
    enqueue("hello", "name=Ada")
    last = enqueue("hello", "name=B")
    assert cli("jobs", "move", last, "top").code == 0
    assert cli("tick", "tasks", "--limit", "1").code == 0
    assert ids(cli("jobs", "list", "--state", "succeeded", "--json")) == [last]
    assert cli("jobs", "move", last, "sideways").code == 2


def test_only_finished_jobs_are_deleted(cli: Cli, enqueue: Store, drain: Drain) -> None:
    job_id = enqueue("hello", "name=Ada")
    assert cli("jobs", "delete", job_id).code == 3
    drain()
    assert cli("jobs", "delete", job_id).code == 0
    gone = cli("jobs", "show", job_id)
    assert gone.code == 1
    assert "windlass jobs list" in gone.err


def test_dead_letters_are_grouped_by_what_killed_them(cli: Cli, enqueue: Store, drain: Drain) -> None:
    for n in range(3):
        enqueue("send", f"to=person{n}", f"n={n}")
    enqueue("refuse")
    drain()
    groups = cli("dlq", "list", "--by-error", "--json").json["groups"]
    assert [group["jobs"] for group in groups] == [3, 1]
    mark = groups[0]["fingerprint"]
    assert len(ids(cli("dlq", "list", "--error", mark, "--json"))) == 3
    assert len(ids(cli("dlq", "list", "--error", "not for us", "--json"))) == 1
    assert mark in cli("dlq", "list", "--by-error").out
    assert len(cli("dlq", "replay", "--error", mark, "--limit", "2", "--json").json["done"]) == 2
    assert len(ids(cli("dlq", "list", "--json"))) == 2


def test_replay_and_purge_want_to_know_which(cli: Cli, enqueue: Store, drain: Drain) -> None:
    dead = enqueue("send", "to=bob")
    drain()
    assert cli("dlq", "replay").code == 2
    assert cli("dlq", "replay", dead, "--all").code == 2
    assert cli("dlq", "purge", "--yes").code == 2
    assert cli("dlq", "purge", "--all").code == 2, "nobody is there to agree"
    assert cli("dlq", "replay", dead).code == 0
    drain()
    assert cli("dlq", "purge", "--older-than", "1d", "--yes").out == "0 deleted\n"
    assert cli("dlq", "purge", "--queue", "mail", "--yes").out == "1 deleted\n"
    assert ids(cli("jobs", "list", "--json")) == []


def test_a_paused_queue_stands_still(cli: Cli, enqueue: Store, drain: Drain) -> None:
    enqueue("send", "to=bob")
    wrong = cli("queues", "pause", "mial")
    assert wrong.code == 2
    assert "did you mean 'mail'" in wrong.err
    assert cli("queues", "pause", "mail").out == "mail is paused\n"
    assert cli("queues", "pause", "mail").out == "mail was paused already\n"
    assert drain()["claimed"] == 0
    [mail] = [queue for queue in cli("queues", "list", "--json").json["queues"] if queue["name"] == "mail"]
    assert mail["paused_at"] is not None
    assert mail["counts"] == {"queued": 1}
    assert "paused" in cli("queues", "list").out
    assert "windlass queues resume mail" in cli("doctor").out
    assert cli("queues", "resume", "mail", "--json").json["changed"] is True
    assert drain()["dead"] == 1


# --------------------------------------------------------------------------------------------------------------- the fleet


@pytest.fixture
def two_workers(tmp_path: Path, cli: Cli) -> None:
    """One that leads, and one that has been silent for two minutes."""

    async def register() -> None:
        client = Client(f"sqlite:///{tmp_path}/windlass.db", Settings())
        now = client.now()
        for name, beats in (("h:1:leads", now), ("h:2:silent", now - 120 * SECOND)):
            about = WorkerInfo(
                id=name, hostname="h", pid=1, pool_size=20, version="1.2", queues=("a", "b"), types=("t",), wakeups="poll",
                running=3, started_at=now - 3_600 * SECOND,
            )  # fmt: skip
            await client.driver.beat(about, now=beats)
        await client.driver.lead("h:1:leads", lease_for=3_600 * SECOND, now=now)
        await client.close()

    asyncio.run(register())


@pytest.mark.usefixtures("two_workers")
def test_workers_are_listed_with_who_leads_and_who_is_dead(cli: Cli) -> None:
    header, first, second = cli("workers").out.splitlines()
    assert header.split() == "ID STATE HOST PID SLOTS RUNNING HEARTBEAT STARTED WAKE-UPS VERSION LEADER QUEUES".split()
    assert first.startswith("h:1:leads   alive  h     1    20     0        ")
    assert "1 h" in first
    assert "until in 59 min" in first or "until in 1 h" in first
    assert first.endswith("a, b")
    assert second.startswith("h:2:silent  dead ")
    assert "2 min ago" in second
    assert "until" not in second


@pytest.mark.usefixtures("two_workers")
def test_workers_as_json(cli: Cli) -> None:
    found = cli("workers", "--json").json
    assert found["leader"] == "h:1:leads"
    first, second = found["workers"]
    assert (first["alive"], first["is_leader"], second["alive"], second["is_leader"]) == (True, True, False, False)
    assert (first["pool_size"], first["running"], first["queues"], first["wakeups"]) == (20, 0, ["a", "b"], "poll")
    assert first["leader_until"] > first["last_heartbeat"] > second["last_heartbeat"] > first["started_at"]


def execute(tmp_path: Path, statement: str) -> None:
    with sqlite3.connect(f"{tmp_path}/windlass.db") as connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.usefixtures("two_workers")
def test_a_probe_asks_whether_a_worker_of_this_host_is_alive(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (cli("workers").code, cli("workers", "--here").code) == (0, 1)
    assert "no worker on this host" in cli("workers", "--here").err
    monkeypatch.setattr(socket, "gethostname", lambda: "h")
    assert cli("workers", "--here").code == 0
    monkeypatch.setenv("WINDLASS_WORKER_TIMEOUT", "300s")  # by which the silent one is alive, too
    assert cli("workers", "--here", "--json").json["workers"][1]["alive"] is True
    monkeypatch.delenv("WINDLASS_WORKER_TIMEOUT")
    execute(tmp_path, "update workers set hostname = 'silent' where id = 'h:2:silent'")
    monkeypatch.setattr(socket, "gethostname", lambda: "silent")
    done = cli("workers", "--here", "--json")
    assert (done.code, [one["alive"] for one in done.json["workers"]]) == (1, [False])


def test_a_store_without_workers_says_how_to_start_one(cli: Cli, enqueue: Store) -> None:
    enqueue("hello", "name=Ada")
    done = cli("workers")
    assert (done.code, done.out) == (0, "")
    assert "windlass worker APP" in done.err
    assert cli("workers", "--json").json["workers"] == []


@pytest.mark.usefixtures("two_workers")
def test_the_doctor_tells_of_silent_workers(cli: Cli) -> None:
    told = cli("doctor").out
    assert "1 of 2 workers: no sign of life for 1 min or longer" in told
    assert "try: windlass workers" in told


def test_a_lease_that_makes_no_sense_is_refused(cli: Cli) -> None:
    done = cli("worker", "tasks", "--drain", "--lease", "10ms")
    assert done.code == 2
    assert "lease: must be at least 100 ms" in done.err


# --------------------------------------------------------------------------------------------------------------- the store


@pytest.mark.parametrize(
    "typed",
    [["jobs", "list"], ["jobs", "show", "x"], ["queues", "list"], ["dlq", "list"], ["doctor"], ["watch", "x"],
     ["queues", "pause", "x"], ["jobs", "cancel", "x"]],
    ids=" ".join,
)  # fmt: skip
def test_a_store_that_is_not_there_is_not_made_by_looking(cli: Cli, typed: list[str], tmp_path: Path) -> None:
    done = cli(*typed)
    assert done.code == 4
    assert str(tmp_path / "windlass.db") in done.err
    assert "--store" in done.err
    assert not (tmp_path / "windlass.db").exists()


def test_a_file_that_is_no_store_is_unreachable(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "windlass.db").write_bytes(b"not a database at all" * 100)
    done = cli("jobs", "list")
    assert done.code == 4
    assert "Traceback" not in done.err


def test_a_traceback_is_shown_when_asked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_DEBUG", "1")
    assert "Traceback" in cli("jobs", "list").err


def test_common_options_may_come_first(cli: Cli, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'other.db'}"
    assert cli("--store", url, "--json", "enqueue", "t").json["existed"] is False
    assert len(ids(cli(f"--store={url}", "--json", "jobs", "list"))) == 1
    assert f"--store {url}" in cli("enqueue", "t", "--store", url).err, "what to type next names the same store"


def test_the_environment_names_the_store(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_URL", f"sqlite:///{tmp_path / 'env.db'}")
    cli("enqueue", "t")
    assert (tmp_path / "env.db").exists()
    assert not (tmp_path / "windlass.db").exists()


def test_errors_are_json_too(cli: Cli) -> None:
    done = cli("jobs", "list", "--json")
    assert done.code == 4
    assert done.json["error"]["exit_code"] == 4
    assert "no store" in done.json["error"]["message"]
    assert done.err == ""
    assert cli("--json", "jbos").json["error"]["exit_code"] == 2


def test_a_plan_changes_nothing_and_migrate_does(cli: Cli, tmp_path: Path) -> None:
    plan = cli("migrate", "--plan", "--json")
    assert [step["applied"] for step in plan.json["steps"]] == [False]
    assert "create table" in cli("migrate", "--sql").out
    assert not (tmp_path / "windlass.db").exists()
    assert cli("migrate", "--json").json["applied_now"] == ["0001_windlass"]
    assert cli("migrate", "--json").json["applied_now"] == []
    assert cli("migrate", "--sql").out == ""


def test_the_doctor_finds_a_second_store_below(cli: Cli, tmp_path: Path) -> None:
    cli("migrate")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "windlass.db").write_bytes(b"")
    done = cli("doctor", "--json")
    assert done.code == 0
    assert [check["name"] for check in done.json["checks"] if check["health"] == "warning"] == ["other stores"]
    assert done.json["health"] == "warning"


def test_version_tells_both(cli: Cli) -> None:
    assert set(cli("version", "--json").json) == {"v", "version", "python"}


def ids(done: Any) -> list[str]:
    return [job["id"] for job in done.json["jobs"]]


def test_json_of_a_job_keeps_its_fields(cli: Cli, enqueue: Store) -> None:
    """The schema that scripts rely on: a field may be added, none may go."""
    shown = cli("jobs", "show", enqueue("hello", "name=Ada"), "--json").json
    assert set(shown) >= {"v", "at", "job", "head", "links", "runs", "timeline"}
    assert set(shown["job"]) >= {
        "id", "type", "queue", "state", "label", "created_at", "run_at", "finished_at", "attempts", "executions",
        "max_attempts", "last_error", "dead_kind", "payload", "result", "progress", "tags",
    }  # fmt: skip
    assert shown["at"].endswith("Z"), "instants are ISO text in UTC"
    assert shown["timeline"][0]["what"] == "enqueued"
    json.dumps(shown)


def test_what_to_type_next_names_the_store_of_the_program(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from windlass import Windlass\napp = Windlass('sqlite:///own.db')\n@app.task\nasync def hello() -> None: ...\n"
    )
    done = cli("enqueue", "--app", "own", "hello")
    typed = done.err.strip().rpartition("see: windlass ")[2].split()
    assert cli(*typed).code == 0


def test_text_that_looks_like_a_number_stays_the_text_that_was_typed(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from windlass import Windlass\napp = Windlass()\ntag = app.command('tag', ['echo', '{version}'])\n"
        "@app.task\nasync def release(version: str, size: int, note: str | None = None) -> None: ...\n"
    )

    def stored(*typed: str) -> dict[str, object]:
        job = cli("enqueue", "--app", "own", *typed).out.strip()
        payload = cli("jobs", "show", job, "--json").json["job"]["payload"]
        assert isinstance(payload, dict)
        return payload

    assert stored("release", "version=3", "size=3") == {"version": "3", "size": 3}
    assert stored("release", 'version="3"', "size=3", "note=null") == {"version": "3", "size": 3, "note": None}
    assert stored("tag", "version=1.10") == {"version": "1.10"}


@pytest.mark.parametrize("output", ["/dev/full", None])
def test_an_answer_that_cannot_be_written_is_no_traceback(tmp_path: Path, output: str | None) -> None:
    """A full disk is an error; a closed output is somebody who does not want to hear."""
    words = shlex.join([sys.executable, "-m", "windlass", "schedules", "preview", "@daily", "--json"])
    done = subprocess.run(
        ["bash", "-c", f"{words} >{output or '&-'}"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=30,
        check=False,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (1 if output else 0, False)


@pytest.mark.parametrize(
    "typed",
    [
        "jobs list --limit=postgresql://u:canary@h/d", "--stor=postgresql://u:canary@h/d jobs list",
        "jobs --store=postgresql://u:canary@h:1/d?password=can@ary lits", "jobs list u:canary@h",
        "serve --store u:canary@h", "jobs list --stor postgresql://u@h:1/d?password=c@canary", "bench mysql://u:canary@h/x",
    ],
)  # fmt: skip
def test_what_was_mistyped_is_told_without_its_password(cli: Cli, typed: str) -> None:
    for more in ([], ["--json"]):
        done = cli(*typed.split(), *more)
        assert done.code == 2
        assert "ary" not in done.out + done.err


@pytest.mark.parametrize("url", ["sqlite:///jobs.db?mode=ro", "sqlite:jobs.db", "sqlite:///a%00b", "sqlite:///:memory:"])
def test_a_url_that_names_no_file_is_a_mistake_of_usage(cli: Cli, tmp_path: Path, url: str) -> None:
    before = set(tmp_path.iterdir())
    for command in (("jobs", "list"), ("queues", "pause", "q"), ("enqueue", "hello"), ("migrate",)):
        done = cli(*command, "--store", url)
        assert (done.code, "names no store I know" in done.err) == (2, True), done
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("worker tasks --processes 0", "processes: must be a whole number from 1 to 1,000, got 0"),
        ("worker tasks --processes 1000000000", "processes: must be a whole number from 1 to 1,000, got 1000000000"),
        ("worker tasks --concurrency 1000000000", "concurrency: must be a whole number from 1 to 10,000, got 1000000000"),
        ("worker tasks --threads -1", "threads: must be a whole number from 1 to 1,000, got -1"),
        ("dev tasks --concurrency 0", "concurrency: must be a whole number from 1 to 10,000, got 0"),
        ("serve --port 99999", "port: must be a whole number from 0 to 65,535, got 99999"),
        ("dev tasks --port -1", "port: must be a whole number from 0 to 65,535, got -1"),
    ],
)
def test_a_count_that_nobody_meant_is_told_with_its_range(
    cli: Cli, enqueue: Callable[..., str], typed: str, says: str
) -> None:
    enqueue("hello", "name=ada")
    done = cli(*typed.split())
    assert (done.code, f"error: {says}\n" in done.err) == (2, True), done


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ("jobs list --since 0001-01-01T00:00+14:00", "since"), ("jobs list --until 9999-12-31T23:59:59-12:00", "until"),
        ("schedules preview @daily --after 0001-01-01 --tz Asia/Tokyo", "after"),
        ("schedules preview @daily --after 0001-01-01T00:00+14:00", "after"),
        ("schedules preview @daily --after 9999-12-31", "after"),
    ],
)  # fmt: skip
def test_the_edge_of_the_calendar_is_a_mistake_of_usage(
    cli: Cli, enqueue: Callable[..., str], typed: str, field: str
) -> None:
    enqueue("hello", "name=ada")
    done = cli(*typed.split())
    assert (done.code, f"error: {field}: " in done.err) == (2, True), done


def test_a_certificate_that_cannot_be_used_is_told_before_an_address_is(
    cli: Cli, enqueue: Callable[..., str], tmp_path: Path
) -> None:
    enqueue("hello", "name=ada")
    (tmp_path / "junk.pem").write_text("junk")
    for certificate in ("nowhere.pem", "junk.pem"):
        done = cli("serve", "--tls-cert", certificate, "--tls-key", certificate, "--port", "0", "--json")
        assert (done.code, f"tls-cert: {certificate} with {certificate} cannot be used" in done.out) == (2, True), done
        assert done.json["error"]["exit_code"] == 2


def test_what_to_type_next_can_be_typed(cli: Cli) -> None:
    """Also where the name of the file means something to a shell."""
    store = "sqlite:///of ada;$x&.db"
    said = cli("enqueue", "--app", "tasks", "hello", "name=ada", "--store", store).err
    _, _, command = said.partition("see: windlass ")
    assert cli(*shlex.split(command)).code == 0, said
