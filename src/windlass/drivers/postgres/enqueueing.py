"""Enqueueing on our own connections: alone or with others, at once or in a transaction, and when a reply is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from windlass.core.dependencies import is_linked
from windlass.core.eligibility import is_due
from windlass.drivers.postgres import jobs, keys, linking
from windlass.drivers.postgres.gathering import Gathering, Seat
from windlass.drivers.postgres.lane import Lane
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.place import Place
from windlass.drivers.statement import Statement
from windlass.drivers.values import Enqueued
from windlass.errors import DuplicateId, DuplicateJob, OutcomeUnknown
from windlass.types import Micros, NewJob


class Enqueueing:
    """`told` is asked what to say, on the connection that stored them, of jobs that are due in these queues."""

    def __init__(self, place: Place, lane: Lane, told: Callable[[set[str]], Statement | None]) -> None:
        self._place, self._lane, self._told = place, lane, told
        self._gathering = Gathering(self._enqueue_together, place.timeout)

    async def enqueue(self, new: Sequence[NewJob], now: Micros) -> list[Enqueued]:
        alike, plain = jobs.check(new, now), is_plain(new)
        if not new:
            return []

        def again(link: Link) -> list[Enqueued]:
            return self._look(link, new, now)

        def alone(looking: bool, timeout: float) -> Awaitable[list[Enqueued]]:
            return self._lane.submit(
                again if looking else lambda link: self._enqueue(link, new, now, alike), again, timeout,
                quick=(lambda: jobs.insert_quickly(new, now, alike)) if plain and not looking else None,
                parting=lambda answers: self._told_of(new, answers, now),
            )  # fmt: skip

        return await (self._gathering.enqueue(new, now, alone) if plain else alone(False, self._place.timeout))

    def enqueue_sync(self, new: Sequence[NewJob], now: Micros) -> list[Enqueued]:
        alike = jobs.check(new, now)
        if not new:
            return []
        return self._lane.submit_sync(
            lambda link: self._enqueue(link, new, now, alike), lambda link: self._look(link, new, now),
            parting=lambda answers: self._told_of(new, answers, now),
        )  # fmt: skip

    async def all_landed(self) -> None:
        await self._gathering.all_landed()

    async def _enqueue_together(self, seats: Sequence[Seat], timeout: float) -> bool:
        """In one statement, or not at all."""
        calls = [(seat.new, seat.now) for seat in seats]
        return await self._lane.submit(
            lambda link: link.run(jobs.insert_together(calls)), None, timeout, quick=lambda: jobs.insert_together(calls),
            parting=lambda stored: self._told_together(seats) if stored else None,
        )  # fmt: skip

    def _enqueue(self, link: Link, new: Sequence[NewJob], now: Micros, alike: bool = False) -> list[Enqueued]:
        if is_plain(new) and link.run(jobs.insert_at_once(new, now, alike)):
            return jobs.answered(new)
        return link.transact(linking.enqueue(new, now))

    def _look(self, link: Link, new: Sequence[NewJob], now: Micros) -> list[Enqueued]:
        """The answer to an earlier try was lost. It was stored whole or not at all, so one id that is there tells."""
        found = link.run(jobs.enqueued_before(new, now))
        if not found:
            try:
                told = self._enqueue(link, new, now)
            except (DuplicateId, DuplicateJob):  # the earlier try was still on its way
                found = link.run(jobs.enqueued_before(new, now))
                if not found:
                    raise
            else:
                known = [job for job, answer in zip(new, told, strict=True) if answer.existed]
                found = link.run(jobs.enqueued_before(known, now)) if known else set()
                if not found:  # else it was on its way, too, and was taken for somebody else's
                    return told
        answers = link.run(keys.answers_of(new, found, now))
        if answers is None:
            raise OutcomeUnknown(str(self._place))
        return answers

    def _told_of(self, new: Sequence[NewJob], answers: Sequence[Enqueued], now: Micros) -> Statement | None:
        queues = jobs.brought(new, answers, now)
        return self._told(queues) if queues else None

    def _told_together(self, seats: Sequence[Seat]) -> Statement | None:
        queues = {job.queue for seat in seats for job in seat.new if is_due(job.run_at, seat.now)}
        return self._told(queues) if queues else None


def is_plain(new: Sequence[NewJob]) -> bool:
    """Nobody else may hold what they ask for."""
    return not (jobs.is_keyed(new) or is_linked(new))
