"""Who holds which queue, and taking or ending a hold by hand."""

from __future__ import annotations

from windlass.admin.views import Holds, HoldView, hold_view
from windlass.client import Client
from windlass.clock import duration, moment
from windlass.core.alterations import ReleaseHold, Renew
from windlass.core.queries import AllHolds
from windlass.errors import HoldLost, HoldNotFound, InvalidInput
from windlass.holds import QueueHold
from windlass.policies import Duration


async def holds(client: Client, *, ended: bool = False) -> Holds:
    rows, now = await client.driver.read(AllHolds()), client.now()
    return Holds(at=moment(now), holds=tuple(hold_view(row, now) for row in rows if ended or row.status == "ACTIVE"))


async def acquire(client: Client, queue: str, by: str, expires_in: Duration, wait: Duration | None) -> HoldView:
    hold = QueueHold(client, queue, by, expires_in, wait)
    await hold.acquire()
    return await named(client, hold.id)


async def renew(client: Client, hold_id: str, expires_in: Duration) -> HoldView:
    term = duration(expires_in, field="expires_in")
    if term == 0:
        raise InvalidInput("expires_in", "must be more than zero")
    hold = await named(client, hold_id)
    [answer] = await client.driver.alter([Renew(hold_id, term)], now=client.now())
    if answer != "applied":
        raise HoldLost(hold.queue, hold.by)
    return await named(client, hold_id)


async def release(client: Client, hold_id: str, by: str) -> HoldView:
    [answer] = await client.driver.alter([ReleaseHold(hold_id, by=by)], now=client.now())
    if answer == "not_found":
        raise HoldNotFound(hold_id)
    return await named(client, hold_id)


async def named(client: Client, hold_id: str) -> HoldView:
    rows, now = await client.driver.read(AllHolds()), client.now()
    for row in rows:
        if row.hold_id == hold_id:
            return hold_view(row, now)
    raise HoldNotFound(hold_id)
