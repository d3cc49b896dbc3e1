"""The part of `Admin` for tokens, the audit log and usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self

from windlass.admin import audit as log
from windlass.admin import tokens as book
from windlass.admin import usage as meter
from windlass.admin.acting import ActingClient
from windlass.admin.audit import AuditList
from windlass.admin.tokens import TokenList, TokenView
from windlass.admin.usage import UsageList
from windlass.client import Client
from windlass.core.acting import By
from windlass.core.fields import check_name, check_queues
from windlass.policies import Duration
from windlass.principal import Principal

if TYPE_CHECKING:
    from windlass.tasks import Task


class Access:
    """`tasks` are those of the program, if it is known. They check jobs that are enqueued by the name of their type."""

    def __init__(self, client: Client, tasks: Mapping[str, Task[..., Any]] | None = None) -> None:
        self.client = client
        self.tasks: Final = tasks

    def acting_as(self, actor: str, *, org_id: str | None = None, queues: Sequence[str] | None = None) -> Self:
        """An admin that acts in somebody's name: each change adds a line to the audit log, in its transaction. With an
        org or queues, only their jobs can be seen and changed; bounds that exist already stay."""
        check_name("actor", actor)
        if org_id is not None:
            check_name("org_id", org_id)
        if queues is not None:
            check_queues(queues)
        by = By(actor=actor, org_id=org_id, queues=None if queues is None else tuple(queues))
        return type(self)(ActingClient(self.client, by), self.tasks)

    async def audit(
        self, *, limit: int = 50, cursor: int | None = None, since: datetime | None = None, actor: str | None = None,
        action: str | None = None, subject: str | None = None,
    ) -> AuditList:  # fmt: skip
        """Who did what, newest first. `action` is one action such as `job.cancel`, or a noun for all actions on it."""
        return await log.listed(self.client, limit, cursor, since, actor, action, subject)

    async def note(self, action: str, subject: str, *, count: int = 1, detail: str | None = None) -> None:
        """Add a line to the audit log for something that changes no row: somebody signed in, something was exported."""
        await log.note(self.client, action, subject, count, detail)

    async def tokens(self) -> TokenList:
        """All tokens without their secrets, in the order of their creation."""
        return await book.listed(self.client)

    async def create_token(
        self, name: str, scopes: Iterable[str], org_id: str | None = None, queues: Iterable[str] | None = None,
        expires_in: Duration | None = None,
    ) -> tuple[TokenView, str]:  # fmt: skip
        """Create a token. Its secret is returned only here."""
        return await book.create(self.client, name, scopes, org_id, queues, expires_in)

    async def revoke_token(self, token: str) -> TokenView:
        """Revoke a token, given by id or name. It stops working at once."""
        return await book.revoke(self.client, token)

    async def authenticate(self, secret: str) -> Principal | None:
        """Who has this secret; None if it is not valid, for whatever reason."""
        return await book.authenticate(self.client, secret)

    async def usage(
        self, *, since: datetime | None = None, until: datetime | None = None, step: str = "day", by: Sequence[str] = (),
        org: str | None = None, queue: str | None = None, type: str | None = None, limit: int = 1_000,  # noqa: A002
    ) -> UsageList:  # fmt: skip
        """What ran and what it cost, in the last 30 days or since a time, by `step` (hour, day, all) and by any of org,
        queue, type and outcome."""
        return await meter.usage(self.client, since, until, step, by, org, queue, type, limit)

    async def count_usage(self) -> int:
        """Add up the runs that ended before the last minute, without waiting for a leader. Returns their number."""
        return await meter.count_now(self.client)
