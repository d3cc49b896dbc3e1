"""Schedules: every interleaving of two who fire, of who fires with who changes, and of two who make the same."""

from __future__ import annotations

from typing import Any

import pytest

from postgres.programs import NOW, alter, check, claim, claimed, enqueue, new, settle, wanted, wish
from postgres.stepping import Stage
from windlass.clock import SECOND
from windlass.core.alterations import (
    Alteration,
    ArchiveTemplate,
    DeleteSchedule,
    DeleteTemplate,
    Fire,
    PutQueue,
    PutSchedule,
    PutTemplate,
    RenameSchedule,
    SetEnabled,
)
from windlass.core.cron import next_after
from windlass.types import NewJob

HOUR = 3_600 * SECOND
DUE = next_after("0 * * * *", "UTC", NOW) or 0
TEMPLATE = PutTemplate(template_id="t", name="report", type="work")


def schedule(name: str = "nightly", **fields: Any) -> PutSchedule:
    return PutSchedule(**{
        "schedule_id": f"s-{name}", "name": name, "template": "report", "cron_expression": "0 * * * *", **fields
    })  # fmt: skip


def job(at: int, name: str = "nightly", **fields: Any) -> NewJob:
    return new(schedule_id=f"s-{name}", fire_at=at, **fields)


def fire(*times: int, name: str = "nightly", **fields: Any) -> Fire:
    jobs = tuple(job(at, name, **fields) for at in times or (DUE,))
    return Fire(schedule_id=f"s-{name}", expected=DUE, next_trigger_at=DUE + HOUR, jobs=jobs)


def made(stage: Stage, **fields: Any) -> None:
    alter(stage, TEMPLATE, schedule(**fields))


def fired(stage: Stage) -> list[int]:
    rows = stage.ask("select windlass.micros(fire_at) from windlass.jobs where schedule_id is not null order by fire_at")
    return [row[0] for row in rows]


def following(stage: Stage) -> list[tuple[int | None, int | None]]:
    rows = stage.ask("select windlass.micros(last_triggered_at), windlass.micros(next_trigger_at) from windlass.schedules")
    return [(row[0], row[1]) for row in rows]


@pytest.mark.parametrize("positions", ["tail", "dense"])
@pytest.mark.parametrize("overlap", ["allow", "skip"])
def test_two_who_fire_one_time_make_one_job(stage: Stage, overlap: str, positions: Any) -> None:
    alter(stage, PutQueue("default", positions))
    made(stage, overlap=overlap)
    for outcome in stage.every(lambda: {"one": wanted(fire()), "two": wanted(fire())}):
        assert sorted([outcome["one"], outcome["two"]]) == [["applied"], ["wrong_state"]], outcome
        assert fired(stage) == [DUE], outcome
        assert following(stage) == [(DUE, DUE + HOUR)], outcome
        check(stage, outcome)


def test_several_schedules_fired_in_another_order_do_not_wait_in_a_ring(stage: Stage) -> None:
    alter(stage, PutQueue("a", "dense"), PutQueue("b", "dense"), TEMPLATE, schedule("x"), schedule("y"))
    one = [fire(name="x", queue="a"), fire(name="y", queue="b")]
    two = [fire(name="y", queue="b"), fire(name="x", queue="a")]
    for outcome in stage.some(lambda: {"one": wanted(*one), "two": wanted(*two)}, rounds=25, seed=1):
        assert sorted([outcome["one"], outcome["two"]]) == [["applied"] * 2, ["wrong_state"] * 2], outcome
        assert fired(stage) == [DUE, DUE], outcome
        check(stage, outcome)


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (schedule(cron_expression="30 * * * *"), next_after("30 * * * *", "UTC", NOW)),
        (schedule(timezone="Asia/Kolkata"), next_after("0 * * * *", "Asia/Kolkata", NOW)),
        (SetEnabled("nightly", False), None),
    ],
)
def test_who_changes_the_rhythm_has_the_last_word(stage: Stage, change: Alteration, after: int | None) -> None:
    """Fired before the change, or not at all; the next time is that of the new rule in both cases."""
    made(stage)
    for outcome in stage.every(lambda: {"one": wanted(fire()), "two": wanted(change)}):
        assert outcome["two"] == ["applied"], outcome
        was_fired = outcome["one"] == ["applied"]
        assert outcome["one"] in (["applied"], ["wrong_state"]), outcome
        assert fired(stage) == [DUE] * was_fired, outcome
        assert following(stage) == [(DUE if was_fired else None, after)], outcome
        check(stage, outcome)


@pytest.mark.parametrize(
    "change", [schedule(jitter=5), schedule(param_overrides=b"{}"), RenameSchedule("nightly", "early")]
)
def test_a_change_of_anything_else_does_not_undo_a_firing(stage: Stage, change: Alteration) -> None:
    """What was written by a firing in between is not written back."""
    made(stage)
    for outcome in stage.every(lambda: {"one": wanted(fire()), "two": wanted(change)}):
        assert (outcome["one"], outcome["two"]) == (["applied"], ["applied"]), outcome
        assert following(stage) == [(DUE, DUE + HOUR)], outcome
        check(stage, outcome)


def test_a_schedule_that_is_deleted_while_it_fires_fires_before_or_never(stage: Stage) -> None:
    made(stage)
    for outcome in stage.every(lambda: {"one": wanted(fire()), "two": wanted(DeleteSchedule("nightly"))}):
        assert outcome["two"] == ["applied"], outcome
        assert outcome["one"] in (["applied"], ["not_found"]), outcome
        assert fired(stage) == [DUE] * (outcome["one"] == ["applied"]), outcome
        assert following(stage) == [], outcome


@pytest.mark.parametrize("overlap", ["skip", "queue-one"])
def test_overlap_is_judged_when_it_fires(stage: Stage, overlap: str) -> None:
    """While a job of the schedule is claimed: one more, or none, but never two that wait."""
    made(stage, overlap=overlap)
    enqueue(stage, job(DUE - HOUR))
    for outcome in stage.every(lambda: {"one": wanted(fire(DUE, DUE + 1)), "two": claim(wish("w"))}):
        assert outcome["one"] == ["applied"], outcome
        waiting = stage.ask("select from windlass.jobs where state = 'queued'")
        assert len(waiting) <= 1, outcome
        check(stage, outcome)


@pytest.mark.parametrize("overlap", ["skip", "queue-one"])
def test_overlap_sees_a_job_that_ends_as_running_or_as_ended(stage: Stage, overlap: str) -> None:
    made(stage, overlap=overlap)
    enqueue(stage, job(DUE - HOUR))
    held = claimed(stage)
    for outcome in stage.every(lambda: {"one": wanted(fire(DUE, DUE + 1)), "two": settle(held)}):
        assert (outcome["one"], outcome["two"]) == (["applied"], ["applied"]), outcome
        assert len(fired(stage)) <= 2, outcome
        check(stage, outcome)


@pytest.mark.parametrize("other", [False, True])
def test_two_programs_that_start_at_once_declare_one_schedule(stage: Stage, other: bool) -> None:
    """Of the same code, or of two versions of it: then the one that comes last has it."""

    def program(number: int) -> list[Alteration]:
        mark = f"v{number if other else 1}"
        rule = f"{number if other else 1} * * * *"
        params = b'{"n":%d}' % (number if other else 1)
        return [
            PutTemplate(template_id=f"t{number}", name="report", type="work", params=params),
            schedule(schedule_id=f"s{number}", cron_expression=rule, declared=mark),
        ]

    for outcome in stage.every(lambda: {"one": wanted(*program(1)), "two": wanted(*program(2))}):
        assert outcome["one"][0] == "applied" or outcome["two"][0] == "applied", outcome
        versions = stage.ask("select distinct template_id from windlass.templates")
        assert len(versions) == 1, outcome
        [(template_id, declared, rule)] = stage.ask("select template_id, declared, cron_expression from windlass.schedules")
        assert template_id == versions[0][0], outcome
        assert rule[0] == declared[1], outcome
        assert len(stage.ask("select from windlass.templates")) == (2 if other else 1), outcome


@pytest.mark.parametrize("change", [DeleteTemplate("report"), ArchiveTemplate("report")])
def test_a_template_never_vanishes_from_under_a_schedule(stage: Stage, change: Alteration) -> None:
    alter(stage, TEMPLATE)
    for outcome in stage.every(lambda: {"one": wanted(schedule()), "two": wanted(change)}):
        kept = stage.ask("select from windlass.templates")
        schedules = stage.ask("select from windlass.schedules")
        assert len(kept) >= len(schedules), outcome
        assert outcome["one"] in (["applied"], ["not_found"]), outcome
        assert outcome["two"] in (["applied"], ["wrong_state"]), outcome
