"""Who wants to hear of what, as this process knows it.

Read when something is settled and the last look is older than `AGE`, so that settling costs no read of its own. A
subscription is therefore heard of by every worker within that time; events of the moments before may be missed. Where
drivers announce something by themselves they ask the store, and know of a subscription at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final

from windlass.clock import SECOND
from windlass.core.queries import AllWebhooks
from windlass.drivers.protocol import Driver
from windlass.records import Webhook
from windlass.types import Micros

AGE: Final[Micros] = 5 * SECOND
log: Final = logging.getLogger("windlass.webhooks")


class Subscriptions:
    def __init__(self, driver: Callable[[], Driver], now: Callable[[], Micros]) -> None:
        self._driver = driver
        self._now = now
        self._read_at: Micros | None = None
        self._told: set[str] = set()
        self.known: Collection[Webhook] = ()  # as they were read last

    def is_fresh(self) -> bool:
        """A clock that was set back makes everything old."""
        return self._read_at is not None and 0 <= self._now() - self._read_at < AGE

    async def current(self) -> Collection[Webhook]:
        """No older than `AGE`. Errors of the store are the caller's: what it cannot announce it must not settle."""
        if not self.is_fresh():
            asked_at = self._now()
            self.known = await self._driver().read(AllWebhooks())
            self._read_at = asked_at
            self._tell_of_unreadable()
        return self.known

    def _tell_of_unreadable(self) -> None:
        """Nobody may subscribe to nothing: a hand, or a newer version, has written what this one cannot read."""
        deaf = {hook.webhook_id for hook in self.known if hook.enabled and not hook.events}
        for name in sorted(deaf - self._told):
            log.warning(
                "webhook %s hears of nothing: its events cannot be read; try: windlass webhooks update %s --events …",
                name,
                name,
            )
        self._told = deaf

    def forget(self) -> None:
        """They were changed by this process, which need not wait to know of it."""
        self._read_at = None


class Nobody(Subscriptions):
    """The subscriptions of a store that is known to have none, so that nobody need be asked."""

    async def current(self) -> Collection[Webhook]:
        return ()
