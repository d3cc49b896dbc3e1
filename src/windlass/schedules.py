"""`app.templates` and `app.schedules`: reusable jobs, and the rules by which jobs are made of them."""

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
from windlass.core.queries import AllSchedules, AllTemplates, AllWorkers
from windlass.core.schedules import gone_from_code, job_by_hand
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
    """Reads and changes templates. A template is a job to be made again and again: a task, its arguments and options.
    Calls that name a template raise `UnknownTemplate` if there is none."""

    def __init__(self, home: Home) -> None:
        self._home = home

    async def put(
        self, name: str, task: str | Task[..., Any], params: Mapping[str, Any] | None = None,
        **options: Unpack[TemplateOptions],
    ) -> Template:  # fmt: skip
        """Create a template, or a new version of the one with this name. Jobs made of an older version do not change.

        `params` are the task's arguments by name. Raises `InvalidInput` if they do not fit the task."""
        client = self._home.client
        job = prototype(self._home, task, params or {}, options)
        await apply(client, of_template(name, job, client.ids.job(client.now())), f"the template {name!r}")
        return await self.get(name)

    async def list(self) -> Sequence[Template]:
        """The newest version of each template, sorted by name."""
        return await self._home.client.driver.read(AllTemplates())

    async def versions(self, name: str) -> Sequence[Template]:
        """All versions of a template, the oldest first."""
        found = await self._home.client.driver.read(AllTemplates(name=name))
        if not found:
            raise await self._unknown(name)
        return found

    async def get(self, name: str) -> Template:
        """The newest version of a template."""
        return (await self.versions(name))[-1]

    async def archive(self, name: str) -> bool:
        """Make no more jobs of the template. Returns False if it was archived already."""
        answer = await self._alter(ArchiveTemplate(name))
        if answer == "not_found":
            raise await self._unknown(name)
        return answer == "applied"

    async def delete(self, name: str) -> None:
        """Remove a template with all its versions. Raises `InUse` if a schedule uses it; archive it instead."""
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
        """The blocking form of `put`."""
        return apart(lambda: self.put(name, task, params, **options))

    def list_sync(self) -> Sequence[Template]:
        """The blocking form of `list`."""
        return apart(self.list)

    def versions_sync(self, name: str) -> Sequence[Template]:
        """The blocking form of `versions`."""
        return apart(lambda: self.versions(name))

    def get_sync(self, name: str) -> Template:
        """The blocking form of `get`."""
        return apart(lambda: self.get(name))

    def archive_sync(self, name: str) -> bool:
        """The blocking form of `archive`."""
        return apart(lambda: self.archive(name))

    def delete_sync(self, name: str) -> None:
        """The blocking form of `delete`."""
        return apart(lambda: self.delete(name))


class Schedules:
    """Reads and changes schedules. Calls that name a schedule raise `UnknownSchedule` if there is none."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._templates = Templates(home)

    async def put(
        self, name: str, template: str, cron: str | None = None, *, every: Duration | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:  # fmt: skip
        """Create a schedule, or replace the one with this name: `put("daily", "report", "0 9 * * MON-FRI",
        tz="Europe/Berlin")`.

        Options that are left out get their defaults, except `enabled`, which keeps its value. If the rule, the zone or
        `enabled` changes, the next time is computed from now. Existing jobs do not change."""
        change = of_schedule(name, template, rule_of(cron, every), options, self._new_id())
        row = await self._put(change, check=True)
        assert row is not None, "whatever there was is replaced"
        return row

    async def _put(self, change: PutSchedule, *, check: bool) -> Schedule | None:
        """Returns None if it is not as it was seen."""
        used = await self._templates.get(change.template)
        if check and change.param_overrides is not None:
            check_overrides(self._home, used, change.param_overrides)
        applied = await apply(self._home.client, change, f"the schedule {change.name!r}")
        return await self.get(change.name) if applied else None

    def _new_id(self) -> str:
        return self._home.client.ids.job(self._home.client.now())

    async def update(
        self, name: str, *, template: str | None = None, cron: str | None = None, every: Duration | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:  # fmt: skip
        """Change only what is given, and keep the rest. What others change meanwhile stays; a schedule that they delete is
        not made again."""
        while True:
            try:
                changed = await self._update(await self.get(name), template, cron, every, options)
            except UnknownTemplate:
                await self.get(name)
                raise
            if changed is not None:
                return changed

    async def _update(
        self, now: Schedule, template: str | None, cron: str | None, every: Duration | None, options: ScheduleOptions
    ) -> Schedule | None:  # fmt: skip
        """Returns None if it was changed since it was read."""
        said: ScheduleOptions = {
            "tz": now.timezone, "catch_up": now.catch_up, "cap": now.catch_up_cap, "overlap": now.overlap,
            "jitter": now.jitter / SECOND,
        }  # fmt: skip
        said.update(options)
        rule = now.cron_expression if cron is None and every is None else rule_of(cron, every)
        change = of_schedule(now.name, template or await self._template_of(now), rule, said, self._new_id())
        change = replace(change, as_of=now.updated_at)
        if "params" not in options:
            change = replace(change, param_overrides=now.param_overrides)
        return await self._put(change, check="params" in options or template is not None)

    async def list(self) -> Sequence[Schedule]:
        """All schedules, sorted by name."""
        return await self._home.client.driver.read(AllSchedules())

    async def get(self, name: str) -> Schedule:
        """The schedule of this name."""
        rows = await self.list()
        found = next((row for row in rows if row.name == name), None)
        if found is None:
            raise UnknownSchedule(name, did_you_mean(str(name), [row.name for row in rows]))
        return found

    async def pause(self, name: str) -> bool:
        """Make no more jobs until `resume`, also after a restart. Returns False if it was paused already."""
        return await self._changed(name, SetEnabled(name, False))

    async def resume(self, name: str) -> bool:
        """Go on from now. Times that passed while it was paused are not made up for."""
        return await self._changed(name, SetEnabled(name, True))

    async def rename(self, name: str, to: str) -> bool:
        """Give the schedule another name; its id and jobs stay its own. Raises `InUse` if the name is taken, or if code
        declares the schedule: rename it there."""
        await self.check_rename(name, to)
        return await self._changed(name, RenameSchedule(name, to))

    async def check_rename(self, name: str, to: str) -> None:
        """Raise what `rename` would raise, and change nothing."""
        row = await self.get(name)
        if to == name:
            return
        if any(other.name == to for other in await self.list()):
            raise InUse(f"another schedule is called {to!r}")
        if row.declared is not None and not await self._is_gone_from_code(row):
            raise InUse(
                f"code declares the schedule {name!r}, and would make it anew beside this one at its next start; rename it "
                f"there, and delete {name!r} when no worker declares it any more"
            )

    async def _is_gone_from_code(self, row: Schedule) -> bool:
        client = self._home.client
        silent, now = client.settings.worker_timeout, client.now()
        living = [one for one in await client.driver.read(AllWorkers()) if now - one.last_heartbeat < silent]
        templates = await self._templates.list()
        task = next((one.type for one in templates if one.template_id == row.template_id), None)
        return gone_from_code(row, task, living)

    async def delete(self, name: str) -> None:
        """Remove the schedule. Jobs that it made stay."""
        await self._changed(name, DeleteSchedule(name))

    async def run(self, name: str) -> JobHandle[Any]:
        """Make one job now, whatever the rule and `overlap` say. It has the tag `manual` and no fire time."""
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
        """The next `count` times of a rule, or of the schedule of this name."""
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
        """The blocking form of `put`."""
        return apart(lambda: self.put(name, template, cron, every=every, **options))

    def update_sync(
        self, name: str, *, template: str | None = None, cron: str | None = None, every: Duration | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Schedule:  # fmt: skip
        """The blocking form of `update`."""
        return apart(lambda: self.update(name, template=template, cron=cron, every=every, **options))

    def list_sync(self) -> Sequence[Schedule]:
        """The blocking form of `list`."""
        return apart(self.list)

    def get_sync(self, name: str) -> Schedule:
        """The blocking form of `get`."""
        return apart(lambda: self.get(name))

    def rename_sync(self, name: str, to: str) -> bool:
        """The blocking form of `rename`."""
        return apart(lambda: self.rename(name, to))

    def check_rename_sync(self, name: str, to: str) -> None:
        """The blocking form of `check_rename`."""
        return apart(lambda: self.check_rename(name, to))

    def pause_sync(self, name: str) -> bool:
        """The blocking form of `pause`."""
        return apart(lambda: self.pause(name))

    def resume_sync(self, name: str) -> bool:
        """The blocking form of `resume`."""
        return apart(lambda: self.resume(name))

    def run_sync(self, name: str) -> JobHandle[Any]:
        """The blocking form of `run`."""
        return apart(lambda: self.run(name))

    def delete_sync(self, name: str) -> None:
        """The blocking form of `delete`."""
        return apart(lambda: self.delete(name))

    def preview_sync(
        self, rule: str, *, tz: str | None = None, count: int = 5, after: datetime | None = None
    ) -> Preview:  # fmt: skip
        """The blocking form of `preview`."""
        return apart(lambda: self.preview(rule, tz=tz, count=count, after=after))


async def apply(client: Client, change: Alteration, what: str) -> bool:
    """False: what it would change is not as it was seen."""
    [answer] = await client.driver.alter([change], now=client.now())
    if answer == "not_found":
        raise UnknownTemplate(getattr(change, "template", ""))
    if answer == "duplicate":
        raise InUse(f"{what} cannot be made: its id is in use")
    return answer != "wrong_state"


async def declare(client: Client, declared: Sequence[Declared]) -> None:
    """Store the schedules that code declares, in one transaction. If programs differ, the one that starts last wins."""
    now = client.now()
    changes: list[Alteration] = []
    for one in declared:
        changes.append(replace(one.template, template_id=client.ids.job(now)))
        changes.append(replace(one.schedule, schedule_id=client.ids.job(now)))
    if changes:
        await client.driver.alter(changes, now=now)
