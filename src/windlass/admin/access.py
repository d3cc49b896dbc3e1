"""The part of `Admin` that is about who comes in, what they did, and what was used."""

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
from windlass.core.admission import check_name, check_queues
from windlass.policies import Duration
from windlass.principal import Principal

if TYPE_CHECKING:
    from windlass.tasks import Task


class Access:
    """`tasks` are those of the program at hand, where there is one: they check what is enqueued by name."""

    def __init__(self, client: Client, tasks: Mapping[str, Task[..., Any]] | None = None) -> None:
        self.client = client
        self.tasks: Final = tasks

    def acting_as(self, actor: str, *, org_id: str | None = None, queues: Sequence[str] | None = None) -> Self:
        """The same in somebody's name: each change leaves a line in the audit log, in the transaction that makes it. With
        an org or queues, only their jobs are there to be seen or changed; whoever is bounded already stays so."""
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
        """Who did what, newest first. `action` is one such as `job.cancel`, or a noun for all that was done to it."""
        return await log.listed(self.client, limit, cursor, since, actor, action, subject)

    async def note(self, action: str, subject: str, *, count: int = 1, detail: str | None = None) -> None:
        """Write a line for what changes no row here: somebody signed in, something was exported."""
        await log.note(self.client, action, subject, count, detail)

    async def tokens(self) -> TokenList:
        """Every token that was made, without its secret, in the order in which they were."""
        return await book.listed(self.client)

    async def create_token(
        self, name: str, scopes: Iterable[str], org_id: str | None = None, queues: Iterable[str] | None = None,
        expires_in: Duration | None = None,
    ) -> tuple[TokenView, str]:  # fmt: skip
        """A new token and its secret, which is told here and never again."""
        return await book.create(self.client, name, scopes, org_id, queues, expires_in)

    async def revoke_token(self, token: str) -> TokenView:
        """By id or name. It lets nobody in from now on."""
        return await book.revoke(self.client, token)

    async def authenticate(self, secret: str) -> Principal | None:
        """Who comes with this secret; None when it is not good, whyever."""
        return await book.authenticate(self.client, secret)

    async def usage(
        self, *, since: datetime | None = None, until: datetime | None = None, step: str = "day", by: Sequence[str] = (),
        org: str | None = None, queue: str | None = None, type: str | None = None, limit: int = 1_000,  # noqa: A002
    ) -> UsageList:  # fmt: skip
        """What ran and what it cost, of the last 30 days or since, by `step` (hour, day, all) and by any of org, queue,
        type and outcome."""
        return await meter.usage(self.client, since, until, step, by, org, queue, type, limit)

    async def count_usage(self) -> int:
        """Add up what has ended, but for the last minute, without waiting for a leader. Answers how many runs."""
        return await meter.count_now(self.client)
