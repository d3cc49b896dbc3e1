"""The audit log as people read it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, fields

from windlass.client import Client
from windlass.clock import SECOND, instant, moment
from windlass.core.alterations import Note
from windlass.core.fields import check_number
from windlass.core.queries import AuditPage, LastAudited
from windlass.records import AuditEntry
from windlass.types import Micros

LOOK: Final = 100_000  # lines that one page looks at
SKEW: Final = 3_600 * SECOND


class AuditView(Struct, frozen=True, kw_only=True):
    """Who did what to what. `selection`: all that matched these words; `count`: so many were changed."""

    number: int
    at: datetime
    actor: str
    action: str
    subject: str
    org_id: str | None
    selection: str | None
    count: int
    detail: dict[str, Any] | None


class AuditList(Struct, frozen=True, kw_only=True):
    """A page, newest first. `cursor` leads to the next one; None = there is none. `stopped`: it is short because so many
    lines were looked at, and the search goes on there."""

    at: datetime
    lines: tuple[AuditView, ...]
    cursor: int | None
    stopped: bool = False


async def listed(
    client: Client, limit: int, cursor: int | None, since: datetime | None, actor: str | None, action: str | None,
    subject: str | None,
) -> AuditList:  # fmt: skip
    if cursor is not None:
        check_number("cursor", cursor)
    begin = 0 if since is None else instant(since, field="since")
    newest = await client.driver.read(LastAudited())
    low = max((newest[0] + 1 if cursor is None else min(cursor, newest[0] + 1)) - 1 - LOOK, 0) if newest else 0
    asked = AuditPage(
        limit=limit, before=cursor, after=low, since=begin, actor=actor, action=action, subject=subject
    )  # fmt: skip
    rows = await client.driver.read(asked)
    stopped = len(rows) < limit and low > 0 and not await _is_before(client, low, begin)
    more = rows[-1].number if len(rows) == limit else low + 1 if stopped else None
    return AuditList(at=moment(client.now()), lines=tuple(map(_view, rows)), cursor=more, stopped=stopped)


async def _is_before(client: Client, number: int, begin: Micros) -> bool:
    """Whether this line was written so long before that nothing older can be meant: clocks differ a little."""
    if not begin:
        return False
    there = await client.driver.read(AuditPage(limit=1, before=number + 1, after=number - 1))
    return bool(there) and there[0].line.at < begin - SKEW


async def note(client: Client, action: str, subject: str, count: int, detail: str | None) -> None:
    await client.driver.alter([Note(action, subject, count, detail)], now=client.now())


def in_words(wanted: Struct) -> str:
    """A filter as it is noted beside what was done to all that match: what was said of it, and nothing else."""
    usual = {field.name: field.default for field in fields(wanted)}
    said = {name: value for name, value in asdict(wanted).items() if value != usual[name] and value not in (None, ())}
    return " ".join(f"{name}={value if isinstance(value, str) else _short(value)}" for name, value in said.items()) or "all"


def _short(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def _view(entry: AuditEntry) -> AuditView:
    line = entry.line
    detail = None if line.detail is None else msgspec.json.decode(line.detail, type=dict[str, Any])
    return AuditView(
        number=entry.number, at=moment(line.at), actor=line.actor, action=line.action, subject=line.subject,
        org_id=line.org_id, selection=line.selection, count=line.count, detail=detail,
    )  # fmt: skip
