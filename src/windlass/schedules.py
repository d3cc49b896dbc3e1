"""`app.templates` and `app.schedules`: reusable jobs and the rules that make them, as a program or a person puts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from msgspec.structs import replace

from windlass.apart import apart
from windlass.client import Client
from windlass.clock import SECOND, instant
from windlass.core.alterations import (
    Alteration,
    ArchiveTemplate,
    DeleteSchedule,
    DeleteTemplate,
    PutSchedule,
    RenameSchedule,
    SetEnabled,
)
from windlass.core.queries import AllSchedules, AllTemplates
from windlass.core.schedules import job_by_hand
from windlass.definitions import (
    Declared,
    Home,
    Preview,
    ScheduleOptions,
    TemplateOptions,
    check_overrides,
    of_schedule,
    of_template,
    preview,
    prototype,
    rule_of,
)
from windlass.errors import InUse, UnknownSchedule, UnknownTemplate
from windlass.handles import JobHandle
from windlass.policies import Duration
from windlass.tasks import Task
from windlass.types import Schedule, Template
from windlass.words import did_you_mean


class Templates:
    def __init__(self, home: Home) -> None:
        self._home = home

    async def put(
        self, name: str, task: str | Task[..., Any], params: Mapping[str, Any] | None = None,
        **options: Unpack[TemplateOptions],
    ) -> Template:  # fmt: skip
        """Make a template, or a new version of it. Jobs that were made of an older one keep what they have."""
        client = self._home.client
        job = prototype(self._home, task, params or {}, options)
        await apply(client, of_template(name, job, client.ids.job(client.now())), f"the template {name!r}")
        return await self.get(name)

    async def list(self) -> Sequence[Template]:
        """The newest version of each, by name."""
        return await self._home.client.driver.read(AllTemplates())

    async def versions(self, name: str) -> Sequence[Template]:
        """Every version, oldest first."""
        found = await self._home.client.driver.read(AllTemplates(name=name))
        if not found:
            raise await self._unknown(name)
        return found

    async def get(self, name: str) -> Template:
        return (await self.versions(name))[-1]

    async def archive(self, name: str) -> bool:
        """Make no more jobs of it. False: it was archived already."""
        answer = await self._alter(ArchiveTemplate(name))
        if answer == "not_found":
            raise await self._unknown(name)
        return answer == "applied"

    async def delete(self, name: str) -> None:
        """Remove it with all its versions. `InUse` while a schedule needs it: archive it instead."""
        answer = await self._alter(DeleteTemplate(name))
        if answer == "not_found":
            raise await self._unknown(name)
        if answer == "wrong_state":
            raise InUse(f"schedules use the template {name!r}; delete those first, or archive it")

    async def _alter(self, change: Alteration) -> str:
        [answer] = await self._home.client.driver.alter([change], now=self._home.client.now())
        return answer

    async def _unknown(self, name: str) -> UnknownTemplate:
        return UnknownTemplate(name, did_you_mean(str(name), [one.name for one in await self.list()]))

    def put_sync(
        self, name: str, task: str | Task[..., Any], params: Mapping[str, Any] | None = None,
        **options: Unpack[TemplateOptions],
    ) -> Template:  # fmt: skip
        """The same as `put`, blocking; so are the others."""
        return apart(lambda: self.put(name, task, params, **options))

    def list_sync(self) -> Sequence[Template]:
        return apart(self.list)

    def versions_sync(self, name: str) -> Sequence[Template]:
        return apart(lambda: self.versions(name))

    def get_sync(self, name: str) -> Template:
        return apart(lambda: self.get(name))

    def archive_sync(self, name: str) -> bool:
        return apart(lambda: self.archive(name))

    def delete_sync(self, name: str) -> None:
        return apart(lambda: self.delete(name))


class Schedules:
    def __init__(self, home: Home) -> None:
        self._home = home
        self._templates = Templates(home)

    async def put(
        self, name: str, template: str, cron: str | None = None, *, every: Duration | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:  # fmt: skip
        """Make a schedule, or change the one of this name: `put("daily", "report", "0 9 * * MON-FRI", tz="Europe/Berlin")`.

        What is left out is as usual, but for `enabled`, which stays as it is. Changing the rule, the zone or `enabled`
        computes the next time from now; jobs that exist are not touched."""
        change = of_schedule(name, template, rule_of(cron, every), options, self._new_id())
        return await self._put(change, check=True)

    async def _put(self, change: PutSchedule, *, check: bool) -> Schedule:
        used = await self._templates.get(change.template)
        if check and change.param_overrides is not None:
            check_overrides(self._home, used, change.param_overrides)
        await apply(self._home.client, change, f"the schedule {change.name!r}")
        return await self.get(change.name)

    def _new_id(self) -> str:
        return self._home.client.ids.job(self._home.client.now())

    async def update(
        self, name: str, *, template: str | None = None, cron: str | None = None, every: Duration | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:  # fmt: skip
        """Change only what is given."""
        now = await self.get(name)
        said: ScheduleOptions = {
            "tz": now.timezone, "catch_up": now.catch_up, "cap": now.catch_up_cap, "overlap": now.overlap,
            "jitter": now.jitter / SECOND,
        }  # fmt: skip
        said.update(options)
        rule = now.cron_expression if cron is None and every is None else rule_of(cron, every)
        change = of_schedule(name, template or await self._template_of(now), rule, said, self._new_id())
        if "params" not in options:
            change = replace(change, param_overrides=now.param_overrides)
        return await self._put(change, check="params" in options or template is not None)

    async def list(self) -> Sequence[Schedule]:
        """By name."""
        return await self._home.client.driver.read(AllSchedules())

    async def get(self, name: str) -> Schedule:
        rows = await self.list()
        found = next((row for row in rows if row.name == name), None)
        if found is None:
            raise UnknownSchedule(name, did_you_mean(str(name), [row.name for row in rows]))
        return found

    async def pause(self, name: str) -> bool:
        """Make no more jobs until it is resumed. False: it was paused already. A new start of the program keeps it so."""
        return await self._changed(name, SetEnabled(name, False))

    async def resume(self, name: str) -> bool:
        """Go on from now: what passed meanwhile is not made up for."""
        return await self._changed(name, SetEnabled(name, True))

    async def rename(self, name: str, to: str) -> bool:
        return await self._changed(name, RenameSchedule(name, to))

    async def delete(self, name: str) -> None:
        """The jobs that it made stay."""
        await self._changed(name, DeleteSchedule(name))

    async def run(self, name: str) -> JobHandle[Any]:
        """One job now, outside the rhythm: it has no fire time and the tag `manual`, and overlap does not hold it back."""
        client, schedule = self._home.client, await self.get(name)
        used = await self._templates.get(await self._template_of(schedule))
        if used.archived_at is not None:
            raise InUse(f"the template {used.name!r} is archived, so nothing is made of it; put it again to use it")
        now = client.now()
        [answer] = await client.enqueue([job_by_hand(schedule, used, client.ids.job(now))], now)
        return JobHandle(client, answer.id, None, answer.existed)

    async def preview(
        self, rule: str, *, tz: str | None = None, count: int = 5, after: datetime | None = None
    ) -> Preview:  # fmt: skip
        """What a rule, or the schedule of this name, does next."""
        start = self._home.client.now() if after is None else instant(after, field="after")
        stored = next((row for row in await self.list() if row.name == rule), None)
        if stored is None:
            return preview(rule, tz or "UTC", start, count)
        return preview(stored.cron_expression, tz or stored.timezone, start, count, stored.created_at)

    async def _changed(self, name: str, change: Alteration) -> bool:
        [answer] = await self._home.client.driver.alter([change], now=self._home.client.now())
        if answer == "not_found":
            await self.get(name)
        if answer == "duplicate":
            raise InUse(f"another schedule has that name already; {name!r} keeps its own")
        return answer == "applied"

    async def _template_of(self, schedule: Schedule) -> str:
        rows = await self._templates.list()
        return next((row.name for row in rows if row.template_id == schedule.template_id), schedule.template_id)

    def put_sync(
        self, name: str, template: str, cron: str | None = None, *, every: Duration | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:  # fmt: skip
        """The same as `put`, blocking; so are the others."""
        return apart(lambda: self.put(name, template, cron, every=every, **options))

    def update_sync(
        self, name: str, *, template: str | None = None, cron: str | None = None, every: Duration | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:  # fmt: skip
        return apart(lambda: self.update(name, template=template, cron=cron, every=every, **options))

    def list_sync(self) -> Sequence[Schedule]:
        return apart(self.list)

    def get_sync(self, name: str) -> Schedule:
        return apart(lambda: self.get(name))

    def rename_sync(self, name: str, to: str) -> bool:
        return apart(lambda: self.rename(name, to))

    def pause_sync(self, name: str) -> bool:
        return apart(lambda: self.pause(name))

    def resume_sync(self, name: str) -> bool:
        return apart(lambda: self.resume(name))

    def run_sync(self, name: str) -> JobHandle[Any]:
        return apart(lambda: self.run(name))

    def delete_sync(self, name: str) -> None:
        return apart(lambda: self.delete(name))

    def preview_sync(
        self, rule: str, *, tz: str | None = None, count: int = 5, after: datetime | None = None
    ) -> Preview:  # fmt: skip
        return apart(lambda: self.preview(rule, tz=tz, count=count, after=after))


async def apply(client: Client, change: Alteration, what: str) -> None:
    [answer] = await client.driver.alter([change], now=client.now())
    if answer == "not_found":
        raise UnknownTemplate(getattr(change, "template", ""))
    if answer == "duplicate":
        raise InUse(f"{what} cannot be made: its id is in use")


async def declare(client: Client, declared: Sequence[Declared]) -> None:
    """Write what the code declares, in one transaction. Who starts last wins; the same again only says that it is there."""
    now = client.now()
    changes: list[Alteration] = []
    for one in declared:
        changes.append(replace(one.template, template_id=client.ids.job(now)))
        changes.append(replace(one.schedule, schedule_id=client.ids.job(now)))
    if changes:
        await client.driver.alter(changes, now=now)
