"""`app.repository`: the interface of Harmonyk. Jobs have a type and a plain payload; who claims one marks its end.

`mark_success` and `mark_failure` work only on jobs that this object has claimed, so two processes can never mark the same
execution. For any other job they raise `JobNotInflight`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from windlass.client import Client
from windlass.core.events import announced
from windlass.core.fields import check_name, check_queues
from windlass.core.settle import Execution, Failed, Outcome, Succeeded, settle
from windlass.core.uniqueness import stable_json
from windlass.drivers.values import Claim
from windlass.errors import InvalidInput, JobNotInflight, LeaseExpired, LeaseMismatch
from windlass.options import plan
from windlass.presets import HARMONYK
from windlass.tasks import Task
from windlass.types import Claimed


class Repository:
    def __init__(self, client: Client, tasks: Mapping[str, Task[..., Any]]) -> None:
        self.client: Final = client
        self._tasks = tasks
        self._leases: dict[str, Claimed] = {}

    async def enqueue(
        self, type: str, org_id: str | None = None, payload: Mapping[str, Any] | None = None,  # noqa: A002
        run_at: datetime | None = None,
    ) -> str:  # fmt: skip
        """Store a job and return its id. If the type is a task of the app, its options and signature apply. Any other
        type is stored with the rules of Harmonyk: five retries, after 1 s and then twice as long each time, at most 60
        s."""
        client, now = self.client, self.client.now()
        check_name("type", type)
        if payload is not None and not isinstance(payload, Mapping):
            raise InvalidInput("payload", f"must be a mapping such as {{'to': 'ada'}}, got {payload!r:.80}")
        said: dict[str, Any] = {"org_id": org_id} if org_id is not None else {}
        if run_at is not None:
            said["run_at"] = run_at
        task = self._tasks.get(type)
        if task is not None:
            new = task.using(**said).job(**(payload or {})).new
        else:
            made = plan(type, said, HARMONYK, client.settings)
            new = made.make(client.ids.job(now), _encoded(payload, client.settings.payload_limit), now)
            if payload is None:
                new = msgspec.structs.replace(new, codec="none", payload=b"")
        [answer] = await client.enqueue((new,), now)
        return answer.id

    async def claim(self, limit: int = 10, *, queues: Sequence[str] = ("default",)) -> list[Claimed]:
        """Claim jobs that are due. They must be marked with this object before their lease ends."""
        client = self.client
        check_queues(queues)
        wish = Claim(
            queues=tuple(queues), limit=limit, lease_for=client.settings.lease, worker_id=f"repository:{id(self):x}",
            token=client.ids.token(),
        )  # fmt: skip
        jobs = await client.driver.claim(wish, now=client.now())
        self._leases |= {job.id: job for job in jobs}
        return jobs

    async def mark_success(self, job_id: str) -> None:
        """End a claimed job as succeeded. Raises `LeaseExpired` or `LeaseMismatch` if the lease is lost."""
        await self._mark(job_id, Succeeded())

    async def mark_failure(self, job_id: str, error: str) -> None:
        """End this execution as failed. The job is queued again after a pause, or dead if no retries are left."""
        await self._mark(job_id, Failed(str(error)))

    async def _mark(self, job_id: str, outcome: Outcome) -> None:
        client = self.client
        lease = self._leases.get(job_id)
        if lease is None:
            raise JobNotInflight(job_id)
        now = client.now()
        run = Execution(now, None, client.ids.job(now), client.ids.random.random())
        change = announced(await client.subscriptions.current(), lease, settle(lease, outcome, run))
        [answer] = await client.driver.settle([change], now=now)
        del self._leases[job_id]
        if answer == "expired":
            raise LeaseExpired(job_id)
        if answer == "mismatch":
            raise LeaseMismatch(job_id)
        if answer not in ("applied", "repeated"):
            raise JobNotInflight(job_id)


def _encoded(payload: Mapping[str, Any] | None, limit: int) -> bytes:
    try:
        text = stable_json({} if payload is None else dict(payload)).encode()
    except UnicodeEncodeError:
        raise InvalidInput("payload", "holds half a character (a lone surrogate), which no text can hold") from None
    if len(text) > limit:
        raise InvalidInput("payload", f"is {len(text):,} bytes, the limit is {limit:,}; store a reference instead")
    return text
