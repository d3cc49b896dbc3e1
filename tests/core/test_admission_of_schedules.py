"""What is refused of templates and schedules, before anything is written."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import LAST_INSTANT, LONGEST
from windlass.core.admission import PAYLOAD_LIMIT
from windlass.core.admission_of_changes import check_alteration
from windlass.core.alterations import (
    ArchiveTemplate,
    DeleteSchedule,
    DeleteTemplate,
    Fire,
    Missed,
    OfSchedules,
    PutSchedule,
    PutTemplate,
    RenameSchedule,
    SetEnabled,
)
from windlass.core.schedules import LARGEST_CAP
from windlass.errors import InvalidInput
from windlass.types import NewGroup

from .make import new

TEMPLATE = PutTemplate(template_id="t", name="report", type="work")
SCHEDULE = PutSchedule(schedule_id="s", name="nightly", template="report", cron_expression="0 9 * * *")
JOB = new(schedule_id="s", fire_at=0)
MISSED = Missed(times=1, first=0, last=LAST_INSTANT, made=0)
FIRE = Fire(schedule_id="s", expected=0, next_trigger_at=None)


@pytest.mark.parametrize(
    "change",
    [
        TEMPLATE,
        replace(TEMPLATE, params=b'{"a": 1}', settings='{"priority": 1}'),
        replace(TEMPLATE, settings="{}".rjust(PAYLOAD_LIMIT)),
        ArchiveTemplate("report"),
        DeleteTemplate("report"),
        SCHEDULE,
        replace(SCHEDULE, enabled=False, catch_up="all", overlap="skip", declared="x"),
        replace(SCHEDULE, catch_up_cap=1, jitter=LONGEST),
        replace(SCHEDULE, catch_up_cap=LARGEST_CAP, param_overrides=b"{}".ljust(PAYLOAD_LIMIT)),
        RenameSchedule("nightly", "weekly"),
        SetEnabled("nightly", True),
        DeleteSchedule("nightly"),
        FIRE,
        replace(FIRE, missed=MISSED, as_of=LAST_INSTANT + 1),  # hands may have touched it as late as that
        replace(FIRE, as_of=-5),  # or so early
        replace(FIRE, next_trigger_at=LAST_INSTANT, jobs=(JOB,) * LARGEST_CAP),
    ],
)
def test_a_sound_change_of_schedules_is_let_in(change: OfSchedules) -> None:
    check_alteration(change)


@pytest.mark.parametrize(
    ("sound", "bad", "field"),
    [
        (TEMPLATE, {"template_id": " "}, "id"),
        (TEMPLATE, {"name": ""}, "name"),
        (TEMPLATE, {"type": ""}, "type"),
        (TEMPLATE, {"queue": ""}, "queue"),
        (TEMPLATE, {"params": "{}"}, "params"),
        (TEMPLATE, {"params": b"[]"}, "params"),
        (TEMPLATE, {"settings": '{"priority": "high"}'}, "settings"),
        (TEMPLATE, {"settings": 5}, "settings"),
        (TEMPLATE, {"settings": '{"max_lost": -1}'}, "max_lost"),
        (TEMPLATE, {"settings": b"{}"}, "settings"),
        (TEMPLATE, {"settings": "\ud800"}, "settings"),
        (TEMPLATE, {"settings": "{}".rjust(PAYLOAD_LIMIT + 1)}, "settings"),
        (TEMPLATE, {"settings": '{"headers":' + '{"a":' * 100_000}, "settings"),
        (TEMPLATE, {"params": b'{"a":' * 100_000}, "params"),
        (TEMPLATE, {"params": b'{"a": "\xff"}'}, "params"),
        (SCHEDULE, {"param_overrides": b'{"a":' * 100_000}, "param_overrides"),
        (ArchiveTemplate("report"), {"name": ""}, "template"),
        (DeleteTemplate("report"), {"name": ""}, "template"),
        (SCHEDULE, {"schedule_id": ""}, "id"),
        (SCHEDULE, {"name": ""}, "name"),
        (SCHEDULE, {"template": ""}, "template"),
        (SCHEDULE, {"cron_expression": "never"}, "cron"),
        (SCHEDULE, {"cron_expression": "0  9 * * *"}, "cron"),
        (SCHEDULE, {"timezone": "Mars/Olympus"}, "timezone"),
        (SCHEDULE, {"enabled": 1}, "enabled"),
        (SCHEDULE, {"catch_up": "some"}, "catch_up"),
        (SCHEDULE, {"overlap": "some"}, "overlap"),
        (SCHEDULE, {"catch_up_cap": 0}, "catch_up_cap"),
        (SCHEDULE, {"catch_up_cap": LARGEST_CAP + 1}, "catch_up_cap"),
        (SCHEDULE, {"catch_up_cap": True}, "catch_up_cap"),
        (SCHEDULE, {"catch_up_cap": 1.5}, "catch_up_cap"),
        (SCHEDULE, {"jitter": -1}, "jitter"),
        (SCHEDULE, {"jitter": LONGEST + 1}, "jitter"),
        (SCHEDULE, {"declared": ""}, "declared"),
        (SCHEDULE, {"param_overrides": b"[]"}, "param_overrides"),
        (SCHEDULE, {"param_overrides": b"{}".ljust(PAYLOAD_LIMIT + 1)}, "param_overrides"),
        (RenameSchedule("nightly", "weekly"), {"name": ""}, "schedule"),
        (RenameSchedule("nightly", "weekly"), {"to": ""}, "name"),
        (SetEnabled("nightly", True), {"schedule": ""}, "schedule"),
        (SetEnabled("nightly", True), {"enabled": 1}, "enabled"),
        (DeleteSchedule("nightly"), {"name": ""}, "schedule"),
        (FIRE, {"schedule_id": ""}, "id"),
        (FIRE, {"expected": -1}, "expected"),
        (FIRE, {"next_trigger_at": LAST_INSTANT + 1}, "next_trigger_at"),
        (FIRE, {"jobs": (JOB,) * (LARGEST_CAP + 1)}, "jobs"),
        (FIRE, {"jobs": (JOB, replace(JOB, schedule_id="other"))}, "jobs"),
        (FIRE, {"jobs": (JOB, replace(JOB, fire_at=None))}, "jobs"),
        (FIRE, {"jobs": (JOB, replace(JOB, after=("parent",)))}, "jobs"),
        (FIRE, {"jobs": (JOB, replace(JOB, group_id="g", opens=NewGroup(group_id="g")))}, "jobs"),
        (FIRE, {"jobs": (JOB, replace(JOB, max_lost=-1))}, "max_lost"),
        *((FIRE, {"jobs": bad}, "jobs") for bad in (5, "jobs", (JOB, "job"))),
        *((FIRE, {"as_of": bad}, "as_of") for bad in (-(2**63), 2**63, "now", 1.0, True)),
        *((FIRE, {"missed": bad}, "missed") for bad in (5, {"times": 1})),
        *((FIRE, {"missed": replace(MISSED, **{field: -1})}, field) for field in ("times", "first", "last", "made")),
        (FIRE, {"missed": replace(MISSED, last=LAST_INSTANT + 1)}, "last"),
    ],
)
def test_a_bad_change_of_schedules_is_refused_by_the_name_of_its_field(
    sound: OfSchedules, bad: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_alteration(replace(sound, **bad))
    assert refused.value.field == field
