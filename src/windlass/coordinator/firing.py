"""Schedules whose time has come make their jobs; and their next times are kept right.

A leader does it so that not everybody asks, but nothing rests on there being one: a firing is compare-and-set in the store,
so two that fire the same time make one job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from windlass.client import Client
from windlass.clock import SECOND
from windlass.coordinator.election import Election
from windlass.core.changes import UNSTORABLE
from windlass.core.fields import BATCH_LIMIT
from windlass.core.queries import AllSchedules, AllTemplates, AllWorkers, DueSchedules
from windlass.core.schedules import firing, gone_from_code, moved_on, straightened
from windlass.errors import StoreError
from windlass.types import Micros, Schedule, Template

log: Final = logging.getLogger("windlass.coordinator")
AT_ONCE: Final = 100  # schedules that one look reads
SHORTEST: Final = SECOND // 1_000
LOOK_OVER_EVERY: Final = 600 * SECOND
ROUNDS: Final = 1_000
UNFIRABLE: Final = (*UNSTORABLE, OverflowError)  # a next time that no calendar holds is one schedule's fault, too
MENDS: Final = "windlass schedules update NAME, with --cron RULE or --tz ZONE"


class Firing:
    name: Final = "firing"

    def __init__(self, client: Client, election: Election) -> None:
        self.patience: Final = election.patience_in_office
        self._client = client
        self._election = election
        self._told: set[str] = set()

    async def tick(self) -> Micros:
        """Fire what is due; come back when the next is, or soon, because somebody may put a schedule meanwhile."""
        if self._election.may_act() is None:
            return 0
        pause = self._client.settings.poll
        by = self._client.now() + pause
        fired, rows = await fire_first(self._client, by, lambda: self._election.epoch is not None, self._told)
        if fired:
            return SHORTEST
        now = self._client.now()  # one that is due and was not fired cannot be, or somebody else was faster
        return max(min((at - now for row in rows if (at := row.next_trigger_at or 0) > now), default=pause), SHORTEST)


class LookOver:
    """Now and then: next times that are none any more, and schedules that no code declares any more."""

    name: Final = "schedules"

    def __init__(self, client: Client, election: Election) -> None:
        self.patience: Final = election.patience_in_office
        self._client = client
        self._election = election
        self._told: set[str] = set()

    async def tick(self) -> Micros:
        if self._election.may_act() is None:
            return 0
        driver, now = self._client.driver, self._client.now()
        rows = await driver.read(AllSchedules())
        for row in rows:
            try:
                change = straightened(row, now)
                if change is not None:
                    log.warning("schedule %s: its next time was not one of its rule, and is computed anew", row.name)
                    await driver.alter([change], now=now)
            except UNFIRABLE as error:
                log.error(
                    "schedule %s cannot be told here, and is left to other machines: %s; try: %s", row.name, error, MENDS
                )
        if any(row.declared_at is not None for row in rows):
            await self._tell_of_gone(rows, now)
        return LOOK_OVER_EVERY

    async def _tell_of_gone(self, rows: list[Schedule], now: Micros) -> None:
        silent = self._client.settings.worker_timeout
        living = [one for one in await self._client.driver.read(AllWorkers()) if now - one.last_heartbeat < silent]
        tasks = {template.template_id: template.type for template in await self._client.driver.read(AllTemplates())}
        gone = {row.name for row in rows if gone_from_code(row, tasks.get(row.template_id), living)}
        for name in sorted(gone - self._told):
            log.warning("schedule %s is in no code any more, and goes on; try: windlass schedules delete %s", name, name)
        self._told = gone


async def fire_all(client: Client) -> int:
    """Everything that is due now, whoever leads: for who comes for a moment only. Answers how often something was fired."""
    total, told = 0, set[str]()
    try:
        for _ in range(ROUNDS):
            fired, _ = await fire_first(client, client.now(), lambda: True, told)
            total += fired
            if not fired:
                break
    except StoreError as error:
        log.warning("schedules could not be fired, and are at the next chance: %s", error)
    return total


async def fire_first(
    client: Client, by: Micros, may_go_on: Callable[[], bool], told: set[str]
) -> tuple[int, list[Schedule]]:
    """The first of those that are due by then, and all that were read. A page of nothing but such as cannot be told here
    hides nobody: the next one is read too. `told`: of which it was said that they stay where they are."""
    most = AT_ONCE
    while True:
        rows = await client.driver.read(DueSchedules(by=by, limit=most))
        fired = await fire(client, rows[most - AT_ONCE :], may_go_on, told)
        last = rows[-1].next_trigger_at if len(rows) == most else None
        if fired or last is None or last > client.now() or most >= BATCH_LIMIT or not may_go_on():
            return fired, rows
        most += AT_ONCE


async def fire(client: Client, rows: list[Schedule], may_go_on: Callable[[], bool], told: set[str]) -> int:
    """Fire those of the schedules that are due, one by one: what is wrong with one must not keep the others."""
    due = [row for row in rows if row.next_trigger_at is not None and row.next_trigger_at <= client.now()]
    if not due:
        return 0
    templates = {template.template_id: template for template in await client.driver.read(AllTemplates())}
    fired = 0
    for row in due:
        if not may_go_on():
            break
        try:
            fired += await fire_one(client, row, templates.get(row.template_id))
        except UNFIRABLE as error:
            if row.schedule_id not in told:
                text = "schedule %s (%s) cannot be fired here, and stays due: %s; try: %s"
                log.error(text, row.name, row.schedule_id, error, MENDS)
            told.add(row.schedule_id)
        else:
            told.discard(row.schedule_id)
    return fired


async def fire_one(client: Client, row: Schedule, template: Template | None) -> bool:
    """What no store takes is not fired this time: it must not be tried for ever, or keep those behind it. One whose rule or
    zone this machine cannot read stays due: another machine may know it."""
    now = client.now()
    try:
        change = firing(row, template, now, lambda: client.ids.job(now))
        if change is None:
            return False
        [answer] = await client.driver.alter([change], now=now)
    except UNFIRABLE as error:
        [answer] = await client.driver.alter([moved_on(row, now)], now=now)
        if answer == "applied":
            log.error("schedule %s cannot make its job and goes on to its next time: %s", row.name, error)
    else:
        for job in change.jobs if answer == "applied" else ():
            client.tell_due(job.run_at)
    return answer == "applied"
