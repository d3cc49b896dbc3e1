"""What the store says of its own health goes to the log, once for each change."""

from __future__ import annotations

import logging
from typing import Final

from windlass.client import Client
from windlass.clock import SECOND
from windlass.coordinator.election import Election
from windlass.records import Finding
from windlass.types import Micros

EVERY: Final = 600 * SECOND
LEVELS: Final = {"ok": logging.INFO, "warning": logging.WARNING, "problem": logging.ERROR}
log: Final = logging.getLogger("windlass.coordinator")


class Watch:
    name: Final = "health"

    def __init__(self, client: Client, election: Election) -> None:
        self.patience: Final = election.patience_in_office
        self._client = client
        self._election = election
        self._seen: dict[str, str] = {}  # what is not well, by name

    async def tick(self) -> Micros:
        if self._election.may_act() is None:
            return 0
        findings = await self._client.driver.examine(now=self._client.now())
        before, self._seen = self._seen, {one.name: one.status for one in findings if one.status != "ok"}
        for one in findings:
            if before.get(one.name, "ok") != one.status:
                log.log(LEVELS[one.status], "%s", told(one))
        return EVERY


def told(finding: Finding) -> str:
    """Texts hold numbers that differ each time; a change of status is what counts."""
    text = f"{finding.name}: {finding.text}" + (" (well again)" if finding.status == "ok" else "")
    return text if finding.command is None or finding.status == "ok" else f"{text}; try: {finding.command}"
