"""`windlass schedules` and `windlass templates`: what they do, say and refuse."""

from __future__ import annotations

import pytest

from cli.conftest import Cli

MADE = ("schedules", "create", "nightly", "--template", "greet")


@pytest.fixture
def greet(cli: Cli) -> Cli:
    assert cli("templates", "put", "greet", "--app", "tasks", "--task", "hello", "name=ada").code == 0
    return cli


def test_preview_shows_offsets_across_the_change_and_the_rule_in_words(cli: Cli) -> None:
    done = cli("schedules", "preview", "30 2 * * *", "--tz", "America/New_York", "--after", "2027-03-13", "--count", "3")
    assert done.code == 0
    assert done.out == (
        "At 02:30 every day, by the clocks of America/New_York\n"
        "  Sat 2027-03-13 02:30:00-05:00\n"
        "  Sun 2027-03-14 03:00:00-04:00  the clocks have changed to EDT\n"
        "  Mon 2027-03-15 02:30:00-04:00\n"
    )
    assert "one that is left out fires when the gap ends" in done.err
    as_json = cli("schedules", "preview", "30 2 * * *", "--tz", "America/New_York", "--after", "2027-03-13", "--json").json
    assert as_json["times"][1] == "2027-03-14T03:00:00-04:00"
    assert as_json["words"].startswith("At 02:30")


def test_preview_needs_no_store(cli: Cli) -> None:
    assert cli("schedules", "preview", "@hourly").code == 0
    assert cli("schedules", "preview", "every 15m", "--count", "2").out.startswith("Every 15 minutes\n")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("0 0 30 2 *",), "the day of month '30'"), (("0-100000000 * * * *",), "is no minute"),
        (("@daily", "--tz", "Europe/Berln"), "did you mean 'Europe/Berlin'"), (("@dayly",), "did you mean '@daily'"),
        (("@daily", "--count", "100000000"), "between 1 and 1,000"),
        (("@daily", "--after", "soon"), "is no day or instant"),
    ],
)  # fmt: skip
def test_a_preview_of_nonsense_is_a_usage_error(cli: Cli, typed: tuple[str, ...], said: str) -> None:
    done = cli("schedules", "preview", *typed)
    assert done.code == 2
    assert said in done.err
    assert "schedules preview --help" in done.err


def test_a_schedule_from_its_making_to_its_end(greet: Cli) -> None:
    cli = greet
    done = cli(*MADE, "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--app", "tasks", "times=2")
    assert done.code == 0, done.err
    assert done.out.startswith("nightly is made: At 02:30 every day, by the clocks of Europe/Berlin\n")
    assert "30 2 * * *" in cli("schedules", "list").out
    [row] = cli("schedules", "list", "--json").json["schedules"]
    assert (row["name"], row["template"], row["type"], row["origin"]) == ("nightly", "greet", "hello", "by hand")
    assert row["param_overrides"] == {"times": 2}
    shown = cli("schedules", "show", "nightly").out
    assert "At 02:30 every day" in shown
    assert "greet (task hello), with {'times': 2}" in shown
    assert len(cli("schedules", "show", "nightly", "--json").json["upcoming"]) == 5
    assert cli("schedules", "update", "nightly", "--every", "1h", "--rename", "hourly").out.startswith("hourly is changed")
    assert cli("schedules", "pause", "hourly").out == "hourly is paused\n"
    assert cli("schedules", "pause", "hourly").out == "hourly was paused already\n"
    assert "paused" in cli("schedules", "list").out
    assert cli("schedules", "resume", "hourly", "--json").json == {
        "v": 1, "schedule": "hourly", "enabled": True, "changed": True,
    }  # fmt: skip
    job_id = cli("schedules", "run", "hourly").out.strip()
    job = cli("jobs", "show", job_id, "--json").json["job"]
    assert (job["payload"], job["tags"], job["schedule_id"]) == (
        {"name": "ada", "times": 2},
        ["manual"],
        row["schedule_id"],
    )
    assert cli("tick", "tasks").code == 0
    assert cli("schedules", "delete", "hourly").out == "hourly is deleted\n"
    assert cli("schedules", "delete", "hourly").code == 1


def test_templates_have_versions_and_are_not_deleted_while_in_use(greet: Cli) -> None:
    cli = greet
    assert cli("templates", "put", "greet", "--task", "hello", "name=bob").out.startswith("greet is at version 2")
    assert [one["params"] for one in cli("templates", "show", "greet", "--json").json["versions"]] == [
        {"name": "ada"}, {"name": "bob"},
    ]  # fmt: skip
    assert "version 2" in cli("templates", "show", "greet").out
    cli(*MADE, "--cron", "@daily")
    refused = cli("templates", "delete", "greet")
    assert refused.code == 3
    assert "schedules use the template 'greet'" in refused.err
    assert cli("templates", "archive", "greet").out == "greet is archived\n"
    assert cli("templates", "archive", "greet").out == "greet was archived already\n"
    assert "archived" in cli("templates", "list").out
    assert "archived" in cli("schedules", "list").out
    assert "makes nothing" in cli("doctor").out
    assert cli("schedules", "run", "nightly").code == 3
    cli("schedules", "delete", "nightly")
    assert cli("templates", "delete", "greet", "--json").json == {"v": 1, "template": "greet", "deleted": True}


@pytest.mark.parametrize(
    ("typed", "code", "said"),
    [
        ((*MADE, "--cron", "@daily", "tiems=2"), 2, "is no parameter"),
        ((*MADE, "--cron", "@daily", "--app", "tasks", "tiems=2"), 2, "did you mean 'times'"),
        ((*MADE, "--cron", "@daily", "--app", "tasks", "times=many"), 2, "do not fit the task 'hello'"),
        ((*MADE, "--cron", "@daily", "--every", "5m"), 2, "not both"), (MADE, 2, "give a cron expression"),
        (("schedules", "create", "n", "--template", "great", "--cron", "@daily"), 1, "did you mean 'greet'"),
        (("schedules", "pause", "nothing"), 1, "there is no schedule 'nothing'"),
        (("schedules", "show", "nothing"), 1, "there is no schedule 'nothing'"),
        (("schedules", "update", "nothing", "--cron", "@daily"), 1, "there is no schedule"),
        (("templates", "put", "x", "--app", "tasks", "--task", "helo"), 2, "did you mean 'hello'"),
        (("templates", "put", "x", "--app", "tasks", "--task", "hello"), 2, "name: is missing"),
        (("templates", "show", "nothing"), 1, "there is no template"),
    ],
)  # fmt: skip
def test_bad_wishes_say_what_to_type_next(greet: Cli, typed: tuple[str, ...], code: int, said: str) -> None:
    done = greet(*typed)
    assert done.code == code, done
    assert said in done.err
    assert "try: windlass " in done.err
    assert greet("schedules", "list", "--json").json["schedules"] == []


def test_a_second_schedule_of_one_name_is_refused(greet: Cli) -> None:
    greet(*MADE, "--cron", "@daily")
    again = greet(*MADE, "--cron", "@hourly")
    assert again.code == 2
    assert "windlass schedules update nightly" in again.err


def test_without_an_app_it_is_said_that_nobody_could_look(cli: Cli) -> None:
    done = cli("templates", "put", "x", "--task", "whatever", "n=1")
    assert done.code == 0
    assert "without --app nobody could look whether a task of that name exists" in done.err
    made = cli("schedules", "create", "s", "--template", "x", "--cron", "@daily", "--paused")
    assert "without --app nobody could look" in made.err
    assert "paused" in cli("schedules", "list").out


def test_where_there_is_none_it_is_said_how_to_begin(greet: Cli) -> None:
    assert "schedules create NAME" in greet("schedules", "list").err
    greet("templates", "delete", "greet")
    assert "templates put NAME" in greet("templates", "list").err


@pytest.mark.parametrize(("name", "code"), [("other", 3), ("", 2)])
def test_a_change_with_a_name_that_cannot_be_changes_nothing(greet: Cli, name: str, code: int) -> None:
    for schedule in ("nightly", "other"):
        assert greet("schedules", "create", schedule, "--template", "greet", "--every", "1h").code == 0
    refused = greet("schedules", "update", "nightly", "--every", "5m", "--rename", name)
    assert refused.code == code, refused
    rules = {row["name"]: row["cron_expression"] for row in greet("schedules", "list", "--json").json["schedules"]}
    assert rules == {"nightly": "every 1h", "other": "every 1h"}
