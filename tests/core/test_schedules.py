"""Which jobs a schedule makes when its time has come, and what its row becomes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.alterations import Fire, Missed, PutSchedule, PutTemplate
from windlass.core.cron import END, times_until
from windlass.core.schedules import (
    BITE,
    ON_TIME,
    firing,
    gone_from_code,
    is_stale,
    jitter_of,
    job_by_hand,
    may_join,
    missed_by,
    placed,
    same,
    straightened,
    templates_of,
    upcoming,
    wanted_times,
)
from windlass.core.templates import Policies, decode_policies, made_of, merged, next_version
from windlass.errors import InvalidInput
from windlass.records import WorkerInfo
from windlass.types import Schedule, Template

HOUR = 3_600 * SECOND
MINUTE = 60 * SECOND
FIRST = 1_900_000_800 * SECOND  # a full hour
assert FIRST % HOUR == 0
NOW = FIRST + 10 * SECOND
TEMPLATE = Template(template_id="t", version=3, name="report", type="work", queue="q", params=b'{"a":1,"b":2}')


def schedule(**fields: Any) -> Schedule:
    return Schedule(**{
        "schedule_id": "s", "template_id": "t", "name": "n", "cron_expression": "0 * * * *", "next_trigger_at": FIRST,
        **fields,
    })  # fmt: skip


def ids() -> Any:
    numbers = iter(range(10_000))
    return lambda: f"job-{next(numbers)}"


def times(row: Schedule, now: int) -> list[int]:
    return [(at - FIRST) // HOUR for at in wanted_times(row, FIRST, now)]


def test_nothing_is_fired_before_its_time() -> None:
    assert firing(schedule(), TEMPLATE, FIRST - 1, ids()) is None
    assert firing(schedule(next_trigger_at=None, enabled=False), TEMPLATE, FIRST, ids()) is None


def test_a_firing_is_the_job_of_that_time_and_the_next_one() -> None:
    change = firing(schedule(param_overrides=b'{"b":3}'), TEMPLATE, FIRST, ids())
    assert change is not None
    assert (change.schedule_id, change.expected, change.next_trigger_at) == ("s", FIRST, FIRST + HOUR)
    [job] = change.jobs
    assert (job.type, job.queue, job.payload, job.template_id, job.template_version) == (
        "work",
        "q",
        b'{"a":1,"b":3}',
        "t",
        3,
    )
    assert (job.schedule_id, job.fire_at, job.run_at) == ("s", FIRST, FIRST)


@pytest.mark.parametrize(
    ("catch_up", "cap", "late", "fired"),
    [
        ("skip", 100, 10 * SECOND, [0]), ("skip", 100, 5 * HOUR + 10 * SECOND, [5]),
        ("skip", 100, 5 * HOUR + 5 * MINUTE, []),
        ("last", 100, 10 * SECOND, [0]), ("last", 100, 5 * HOUR + 5 * MINUTE, [5]), ("last", 100, 5 * MINUTE, [0]),
        ("all", 100, 10 * SECOND, [0]), ("all", 100, 5 * HOUR + 5 * MINUTE, [0, 1, 2, 3, 4, 5]),
        ("all", 2, 5 * HOUR + 5 * MINUTE, [4, 5]), ("all", 1, 5 * MINUTE, [0]),
    ],
)  # fmt: skip
def test_what_was_missed_is_skipped_or_made_up_for(catch_up: Any, cap: int, late: int, fired: list[int]) -> None:
    row = schedule(catch_up=catch_up, catch_up_cap=cap)
    assert times(row, FIRST + late) == fired
    change = firing(row, TEMPLATE, FIRST + late, ids())
    assert change is not None
    assert [job.fire_at for job in change.jobs] == [FIRST + n * HOUR for n in fired]
    assert change.next_trigger_at == FIRST + (late // HOUR + 1) * HOUR


@pytest.mark.parametrize("catch_up", ["skip", "last", "all"])
def test_a_rule_of_every_second_misses_none_while_one_leader_follows_another(catch_up: Any) -> None:
    row = schedule(cron_expression="* * * * * *", catch_up=catch_up, catch_up_cap=1)
    found = wanted_times(row, FIRST, FIRST + 40 * SECOND)
    assert found == [FIRST + n * SECOND for n in range(41)]
    assert len(wanted_times(row, FIRST, FIRST + HOUR)) == ON_TIME // SECOND


def test_a_long_catching_up_goes_on_in_bites_and_loses_none() -> None:
    row, now, fired = schedule(catch_up="all", catch_up_cap=500), FIRST + 400 * HOUR, []
    for _ in range(10):
        change = firing(row, TEMPLATE, now, ids())
        if change is None:
            break
        assert len(change.jobs) <= BITE
        fired += [job.fire_at for job in change.jobs]
        row = replace(row, next_trigger_at=change.next_trigger_at)
    assert fired == [FIRST + n * HOUR for n in range(401)]
    assert row.next_trigger_at == now + HOUR


@pytest.mark.parametrize(
    ("catch_up", "late", "missed"),
    [
        ("last", 10 * SECOND, None), ("last", MINUTE - 1, None), ("last", MINUTE, (1, 0, 0, 1)),
        ("skip", 5 * HOUR + 5 * MINUTE, (6, 0, 5, 0)), ("last", 5 * HOUR + 5 * MINUTE, (6, 0, 5, 1)),
        ("all", 5 * HOUR + 5 * MINUTE, (6, 0, 5, 6)), ("last", 5 * HOUR + 10 * SECOND, (5, 0, 4, 0)),
    ],
)  # fmt: skip
def test_a_firing_says_what_it_comes_too_late_for(catch_up: Any, late: int, missed: tuple[int, ...] | None) -> None:
    change = firing(schedule(catch_up=catch_up), TEMPLATE, FIRST + late, ids())
    assert change is not None
    told = change.missed
    found = None if told is None else (told.times, (told.first - FIRST) // HOUR, (told.last - FIRST) // HOUR, told.made)
    assert found == missed


def test_what_is_caught_up_in_bites_is_missed_once() -> None:
    row, now, missed = schedule(catch_up="all", catch_up_cap=500), FIRST + 400 * HOUR + 5 * MINUTE, []
    while (change := firing(row, TEMPLATE, now, ids())) is not None:
        assert change.missed is not None
        missed.append((change.missed.times, change.missed.made))
        row = replace(row, next_trigger_at=change.next_trigger_at)
    assert missed == [(100, 100)] * 4 + [(1, 1)]


@pytest.mark.parametrize("template", [None, replace(TEMPLATE, archived_at=5)])
def test_without_a_template_in_use_the_time_passes_and_nothing_is_made(template: Template | None) -> None:
    change = firing(schedule(catch_up="all"), template, FIRST + 300 * HOUR, ids())
    assert change is not None
    assert (change.jobs, change.next_trigger_at) == ((), FIRST + 301 * HOUR)


def test_jitter_is_the_same_whoever_computes_it_and_spread_over_its_width() -> None:
    drawn = [jitter_of("s", FIRST + n * HOUR, MINUTE) for n in range(200)]
    assert drawn == [jitter_of("s", FIRST + n * HOUR, MINUTE) for n in range(200)]
    assert 0 <= min(drawn) < 10 * SECOND
    assert 50 * SECOND < max(drawn) <= MINUTE
    assert jitter_of("other", FIRST, MINUTE) != jitter_of("s", FIRST, MINUTE)
    assert jitter_of("s", FIRST, 0) == 0
    change = firing(schedule(jitter=MINUTE), TEMPLATE, FIRST, ids())
    assert change is not None
    assert change.jobs[0].run_at == FIRST + jitter_of("s", FIRST, MINUTE)


@pytest.mark.parametrize(
    ("overlap", "queued", "running", "may"),
    [
        ("allow", True, True, True), ("skip", False, False, True), ("skip", True, False, False),
        ("skip", False, True, False), ("queue-one", False, True, True), ("queue-one", True, False, False),
        ("queue-one", False, False, True), ("queue-one", True, True, False),
    ],
)  # fmt: skip
def test_overlap(overlap: Any, queued: bool, running: bool, may: bool) -> None:
    assert may_join(schedule(overlap=overlap), queued, running) is may


def test_a_job_by_hand_has_no_fire_time_and_says_so() -> None:
    job = job_by_hand(schedule(), replace(TEMPLATE, settings='{"tags":["x"]}'), "j")
    assert (job.fire_at, job.run_at, job.schedule_id, job.tags) == (None, None, "s", ("x", "manual"))


def test_a_next_time_is_straightened_only_when_it_is_wrong() -> None:
    soon = FIRST + HOUR
    assert straightened(schedule(next_trigger_at=soon), NOW) is None
    assert straightened(schedule(next_trigger_at=FIRST), NOW) is None, "it is due, and will be fired"
    assert straightened(schedule(next_trigger_at=soon), FIRST - 5 * MINUTE) is None, "a clock that lags a little"
    assert straightened(schedule(next_trigger_at=None, enabled=False), NOW) is None
    for wrong in (FIRST + 8_760 * HOUR, soon + 7 * MINUTE):  # a clock was a year ahead; the rules of a zone have changed
        change = straightened(schedule(next_trigger_at=wrong), NOW)
        assert change is not None
        assert (change.expected, change.next_trigger_at, change.jobs) == (wrong, soon, ())


def test_a_schedule_is_gone_from_code_when_everybody_who_knows_its_task_started_without_it() -> None:
    def worker(started: int, *types: str) -> WorkerInfo:
        return WorkerInfo(
            id="w", hostname="h", pid=1, pool_size=1, version="1", queues=(), types=types, wakeups="", running=0,
            started_at=started,
        )  # fmt: skip

    row = schedule(declared="f", declared_at=100)
    assert gone_from_code(row, "work", [worker(101, "work")])
    assert not gone_from_code(row, "work", [worker(101, "work"), worker(99, "work")]), "an older one still has it"
    assert not gone_from_code(row, "work", [worker(101, "other")]), "they are of another program"
    assert not gone_from_code(row, "work", []), "nobody can tell"
    assert not gone_from_code(schedule(), "work", [worker(101, "work")]), "it never was in code"


def test_a_job_is_a_snapshot_of_its_template() -> None:
    policies = Policies(
        priority=3, org_id="acme", tags=("x",), headers={"a": "b"}, retry_mode="new_job", crash_policy="fail"
    )
    job = made_of(replace(TEMPLATE, settings=policies.encode()), "j")
    assert (job.priority, job.org_id, job.tags, job.headers, job.retry_mode) == (3, "acme", ("x",), {"a": "b"}, "new_job")
    assert decode_policies(replace(TEMPLATE, settings=policies.encode())) == policies
    assert Policies().encode() is None


@pytest.mark.parametrize("settings", ['{"weight":2}', '{"priority":"high"}', "[]", "{", ""])
def test_settings_that_this_version_cannot_read_are_bad_input(settings: str) -> None:
    """A newer version wrote them, or a hand."""
    with pytest.raises(InvalidInput) as refused:
        decode_policies(replace(TEMPLATE, settings=settings))
    assert refused.value.field == "settings"


@pytest.mark.parametrize("of", [TEMPLATE, PutTemplate(template_id="t", name=TEMPLATE.name, type="work")])
def test_settings_that_are_refused_are_told_with_their_template_and_their_name(of: Template | PutTemplate) -> None:
    """Whether they are to be stored or were stored."""
    with pytest.raises(InvalidInput, match=rf"^settings: of the template '{TEMPLATE.name}' are no policies .*priority"):
        decode_policies(replace(of, settings='{"priority":"high"}'))


def test_overrides_replace_whole_arguments() -> None:
    assert merged(b'{"a":{"x":1},"b":2}', b'{"a":{"y":2},"c":3}') == b'{"a":{"y":2},"b":2,"c":3}'
    assert merged(b'{"a":1}', None) == b'{"a":1}'


def test_a_version_is_made_by_a_change_only() -> None:
    put = PutTemplate(template_id="new", name="report", type="work", queue="q", params=b'{"a":1,"b":2}')
    assert next_version(replace(TEMPLATE, created_at=1), put, NOW) is None
    changed = next_version(TEMPLATE, replace(put, params=b"{}"), NOW)
    assert changed is not None
    assert (changed.template_id, changed.version, changed.created_at) == ("t", 4, NOW)
    back = next_version(replace(TEMPLATE, archived_at=5), put, NOW)
    assert back is not None
    assert (back.version, back.archived_at) == (4, None)


# ------------------------------------------------------------------------------------------------------------------- rows


def put(**fields: Any) -> PutSchedule:
    return PutSchedule(
        **{"schedule_id": "new", "name": "n", "template": "report", "cron_expression": "0 * * * *", **fields}
    )


def test_a_new_schedule_runs_from_now_on_unless_it_is_switched_off() -> None:
    row = placed(None, put(), "t", NOW)
    assert (row.schedule_id, row.enabled, row.next_trigger_at, row.created_at) == ("new", True, FIRST + HOUR, NOW)
    assert (row.declared, row.declared_at) == (None, None)
    off = placed(None, put(enabled=False), "t", NOW)
    assert (off.enabled, off.next_trigger_at) == (False, None)
    assert placed(None, put(declared="d"), "t", NOW).declared_at == NOW


@pytest.mark.parametrize(
    ("change", "next_trigger_at"),
    [
        ({}, FIRST), ({"catch_up": "all"}, FIRST), ({"cron_expression": "30 * * * *"}, FIRST + HOUR // 2),
        ({"timezone": "Asia/Kolkata"}, FIRST + HOUR // 2), ({"enabled": False}, None), ({"enabled": True}, FIRST),
    ],
)  # fmt: skip
def test_a_change_of_rule_zone_or_switch_counts_from_now_and_nothing_else_does(
    change: dict[str, Any], next_trigger_at: int | None
) -> None:
    before = schedule(created_at=5, updated_at=NOW + 7, last_triggered_at=6)
    after = placed(before, put(**change), "t", NOW)
    assert after.next_trigger_at == next_trigger_at
    assert (after.schedule_id, after.created_at, after.updated_at, after.last_triggered_at) == ("s", 5, NOW + 8, 6)


def test_what_was_switched_off_stays_off_until_somebody_says_otherwise() -> None:
    off = schedule(enabled=False, next_trigger_at=None)
    assert placed(off, put(), "t", NOW).enabled is False
    assert placed(off, put(enabled=True), "t", NOW).next_trigger_at == FIRST + HOUR


def test_code_that_says_the_same_undoes_nothing_and_a_person_leaves_its_word_standing() -> None:
    changed = schedule(cron_expression="5 * * * *", declared="d", declared_at=3)
    assert placed(changed, put(declared="d"), "t", NOW) == replace(changed, declared_at=NOW, updated_at=NOW)
    other = placed(changed, put(declared="e"), "t", NOW)
    assert (other.cron_expression, other.declared, other.declared_at) == ("0 * * * *", "e", NOW)
    by_hand = placed(changed, put(), "t", NOW)
    assert (by_hand.cron_expression, by_hand.declared, by_hand.declared_at) == ("0 * * * *", "d", 3)
    undeclared = placed(schedule(), put(cron_expression="5 * * * *"), "t", NOW)
    assert undeclared.cron_expression == "5 * * * *"


def test_a_row_is_the_same_but_for_when_it_was_written() -> None:
    row = schedule(updated_at=5)
    assert same(row, replace(row, updated_at=9))
    assert not same(row, replace(row, jitter=1))
    assert not same(None, row)


MADE = made_of(TEMPLATE, "j")


@pytest.mark.parametrize(
    ("fields", "newest", "stale"),
    [
        ({}, {"t": TEMPLATE}, False), ({}, {}, False), ({"as_of": 5}, {}, False), ({"as_of": 4}, {}, True),
        ({"expected": FIRST + 1}, {"t": TEMPLATE}, True), ({}, {"t": replace(TEMPLATE, version=4)}, True),
        ({}, {"t": replace(TEMPLATE, archived_at=1)}, True),
        ({"jobs": (replace(MADE, template_id=None),)}, {"t": replace(TEMPLATE, version=4)}, False),
        ({"jobs": (replace(MADE, template_id=None), MADE)}, {"t": replace(TEMPLATE, version=4)}, True),
    ],
)  # fmt: skip
def test_a_firing_is_stale_once_somebody_changed_what_it_is_made_of(
    fields: dict[str, Any], newest: dict[str, Template], stale: bool
) -> None:
    change = Fire(**{"schedule_id": "s", "expected": FIRST, "next_trigger_at": None, "jobs": (MADE,), **fields})
    assert is_stale(change, schedule(updated_at=5), newest) is stale


def test_a_firing_names_the_templates_of_its_jobs() -> None:
    jobs = (MADE, replace(MADE, template_id=None))
    assert templates_of(Fire(schedule_id="s", expected=1, next_trigger_at=None, jobs=jobs)) == {"t"}


# ------------------------------------------------------------------------------------------------------------------ edges


@pytest.mark.parametrize(("late", "goes_on"), [(BITE - 1, 0), (BITE, 1)])
def test_what_does_not_fit_into_one_firing_goes_on_with_the_next(late: int, goes_on: int) -> None:
    row, now = schedule(catch_up="all", catch_up_cap=1_000), FIRST + late * HOUR
    change = firing(row, TEMPLATE, now, ids())
    assert change is not None
    assert (len(change.jobs), change.next_trigger_at) == (BITE, now + (0 if goes_on else HOUR))
    archived = firing(row, replace(TEMPLATE, archived_at=1), now, ids())
    assert archived is not None
    assert (archived.jobs, archived.next_trigger_at) == ((), now + HOUR), "without jobs all of it has passed"


def test_what_comes_a_minute_late_was_missed() -> None:
    change = firing(schedule(catch_up="all"), TEMPLATE, FIRST + HOUR + ON_TIME, ids())
    assert change is not None
    assert change.missed == Missed(times=2, first=FIRST, last=FIRST + HOUR, made=2)
    assert missed_by(schedule(), FIRST, FIRST + ON_TIME, None, []) == Missed(times=1, first=FIRST, last=FIRST, made=0)


def test_only_a_time_that_is_to_come_is_straightened() -> None:
    assert straightened(schedule(next_trigger_at=NOW), NOW) is None
    assert straightened(schedule(next_trigger_at=NOW - 1), NOW) is None
    crooked = straightened(schedule(next_trigger_at=FIRST + HOUR // 2), NOW)
    assert crooked is not None
    assert crooked.next_trigger_at == FIRST + HOUR
    last = next(times_until("0 * * * *", "UTC", END))
    assert straightened(schedule(next_trigger_at=last), last - 1) is None, "behind it there is none"


def test_code_that_was_declared_when_the_last_worker_began_is_there() -> None:
    for started_at, gone in ((4, False), (5, False), (6, True)):
        living = WorkerInfo(
            id="w", hostname="h", pid=1, pool_size=1, version="1", queues=(), types=("work",), wakeups="push", running=0,
            started_at=started_at,
        )  # fmt: skip
        assert gone_from_code(schedule(declared_at=5), "work", [living]) is gone


def test_the_next_times_are_those_of_the_rule_and_none_while_it_is_paused() -> None:
    assert upcoming(schedule(), NOW, 2) == [FIRST + HOUR, FIRST + 2 * HOUR]
    assert upcoming(schedule(enabled=False), NOW, 2) == []
