"""Schedules of a simulated fleet, and what must hold of them: each time once, and under catch_up="all" none is missed.

The rules fire for a minute only and then not for a year, so that a world comes to rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from windlass.clock import SECOND, moment
from windlass.core.alterations import Alteration, Fire, PutSchedule, PutTemplate
from windlass.core.cron import times_after
from windlass.testing.simulator.calls import Call
from windlass.testing.simulator.conduct import require
from windlass.testing.simulator.history import History
from windlass.types import ACTIVE, Job, Micros

EVERY, ALONE = "every", "alone"  # one that misses nothing, and one whose jobs never stand side by side
MINUTE: Final[Micros] = 60 * SECOND


def schedules(now: Micros, task: str, queue: str, params: bytes) -> list[Alteration]:
    at = moment(now + 2 * SECOND)
    minute = f"{at.minute} {at.hour} {at.day} {at.month} *"
    return [
        PutTemplate(template_id="template", name="template", type=task, queue=queue, params=params),
        PutSchedule(
            schedule_id=EVERY, name=EVERY, template="template", cron_expression=f"*/4 {minute}", catch_up="all",
            catch_up_cap=1_000, jitter=SECOND,
        ),
        PutSchedule(
            schedule_id=ALONE, name=ALONE, template="template", cron_expression=f"*/3 {minute}", overlap="skip",
            catch_up="all",
        ),
    ]  # fmt: skip


class Rhythm:
    """A ledger of what schedules made, kept from the rows that came to be."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._expected: set[Micros] = set()
        self._fired: dict[tuple[str, Micros], str] = {}

    def begin(self, changes: Iterable[Alteration], now: Micros) -> None:
        for change in changes:
            if isinstance(change, PutSchedule) and change.name == EVERY:
                for at in times_after(change.cron_expression, "UTC", now):
                    if at > now + 2 * MINUTE:
                        break
                    self._expected.add(at)

    def judge(self, call: Call) -> None:
        if call.method != "alter" or call.error is not None:
            return
        for change, answer in zip(call.batch, call.answer, strict=True):
            if isinstance(change, Fire):
                if answer == "applied":
                    self._history.sometimes("fired")
                    if len(change.jobs) > 1:
                        self._history.sometimes("caught_up")
                else:
                    self._history.sometimes("fired_by_another")

    def born(self, job: Job, others: Mapping[int, Job]) -> None:
        if job.schedule_id is None or job.fire_at is None or job.retry_of is not None:
            return
        first = self._fired.setdefault((job.schedule_id, job.fire_at), job.id)
        require(first == job.id, "a time is fired once", f"{job.schedule_id} at {job.fire_at}: {first} and {job.id}")
        require((job.run_at or 0) >= job.fire_at, "what a schedule makes does not run before its time", job.id)
        if job.schedule_id == ALONE:
            beside = [
                one.id for one in others.values() if one.schedule_id == ALONE and one.state in ACTIVE and one.id != job.id
            ]
            require(not beside, "overlap=skip makes nothing beside an unfinished job", f"{job.id} and {', '.join(beside)}")

    def outstanding(self) -> set[Micros]:
        """Times that should have been fired by the end."""
        return self._expected - {at for name, at in self._fired if name == EVERY}
