"""Schedules' part of the state machine in `model.py`: what is put, paused, archived and fired, also by who read too early.

It keeps a ledger of its own: which times have been fired, so that none is twice."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from windlass.core.alterations import (
    Alteration,
    ArchiveTemplate,
    DeleteSchedule,
    DeleteTemplate,
    Fire,
    PutSchedule,
    PutTemplate,
    RenameSchedule,
    SetEnabled,
)
from windlass.core.queries import AllSchedules, AllTemplates, DueSchedules
from windlass.core.schedules import firing, straightened
from windlass.testing.model_machine import Machine
from windlass.types import Schedule, Template

NAMES = ("s1", "s2")
TEMPLATES = ("t1", "t2")


class ScheduleRules(Machine):
    def __init__(self) -> None:
        super().__init__()
        self.seen_schedules: list[Schedule] = []  # as somebody read them, now or long ago
        self.fired: dict[tuple[str, int], str] = {}

    # ---------------------------------------------------------------------------------------------------------- rules

    @rule(name=st.sampled_from(TEMPLATES), queue=st.sampled_from(("a", "b")), params=st.sampled_from((b"{}", b'{"n":1}')))
    def put_template(self, name: str, queue: str, params: bytes) -> None:
        self._alter(PutTemplate(template_id=self.name("template"), name=name, type="x", queue=queue, params=params))

    @rule(
        name=st.sampled_from(NAMES), template=st.sampled_from(TEMPLATES),
        cron=st.sampled_from(("* * * * *", "*/7 * * * * *", "every 13s", "30 2 * * *")),
        zone=st.sampled_from(("UTC", "America/New_York")), enabled=st.sampled_from((None, None, True, False)),
        overlap=st.sampled_from(("allow", "skip", "queue-one")), catch_up=st.sampled_from(("skip", "last", "all")),
        declared=st.sampled_from((None, None, "v1", "v2")), overrides=st.sampled_from((None, b'{"n":2}')),
    )  # fmt: skip
    def put_schedule(
        self, name: str, template: str, cron: str, zone: str, enabled: bool | None, overlap: str, catch_up: str,
        declared: str | None, overrides: bytes | None,
    ) -> None:  # fmt: skip
        self._alter(PutSchedule(
            schedule_id=self.name("schedule"), name=name, template=template, cron_expression=cron, timezone=zone,
            enabled=enabled, overlap=overlap, catch_up=catch_up, catch_up_cap=3, declared=declared,  # type: ignore[arg-type]
            param_overrides=overrides,
        ))  # fmt: skip

    @rule(
        change=st.one_of(
            st.builds(SetEnabled, st.sampled_from(NAMES), st.booleans()),
            st.builds(RenameSchedule, st.sampled_from(NAMES), st.sampled_from(NAMES)),
            st.builds(ArchiveTemplate, st.sampled_from(TEMPLATES)),
            st.builds(DeleteTemplate, st.sampled_from(TEMPLATES)),
            st.builds(DeleteSchedule, st.sampled_from(NAMES)),
        )
    )
    def change_schedule(self, change: Alteration) -> None:
        self._alter(change)

    @rule()
    def read_schedules(self) -> None:
        rows, _ = self.both("read", DueSchedules(by=self.now))
        self.seen_schedules = [*self.seen_schedules, *rows][-6:]

    @precondition(lambda self: self.seen_schedules)
    @rule(pick=st.integers(0, 5))
    def fire(self, pick: int) -> None:
        """By what somebody read, which may be long out of date."""
        row = self.seen_schedules[pick % len(self.seen_schedules)]
        templates: list[Template] = self._ask(self.spec, "read", AllTemplates())
        template = next((one for one in templates if one.template_id == row.template_id), None)
        change = firing(row, template, self.now, lambda: self.name("fired"))
        if change is not None:
            self._alter(change)

    @rule()
    def straighten(self) -> None:
        rows: list[Schedule] = self._ask(self.spec, "read", AllSchedules())
        for row in rows:
            change = straightened(row, self.now)
            if change is not None:
                self._alter(change)

    def _alter(self, change: Alteration) -> None:
        self.both("alter", [change], now=self.now)
        if isinstance(change, Fire):
            self._note_fired()

    def _note_fired(self) -> None:
        for job in self._jobs(self.spec):
            if job.schedule_id is not None and job.fire_at is not None and job.retry_of is None:
                first = self.fired.setdefault((job.schedule_id, job.fire_at), job.id)
                assert first == job.id or first not in self.before, "one time was fired twice"

    # ----------------------------------------------------------------------------------------------------- invariants

    @invariant()
    def schedules_are_the_same(self) -> None:
        self.both("read", AllTemplates())
        rows, _ = self.both("read", AllSchedules())
        for name in TEMPLATES:
            self.both("read", AllTemplates(name=name))
        for row in rows:
            assert row.enabled or row.next_trigger_at is None, "a paused schedule has a next time"
