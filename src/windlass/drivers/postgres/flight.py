"""Operations on the event loop that asked for them: their statements are sent from there, and answers are read there when
they come. That spares two changes of threads for each call, which on an idle machine take longer than the statement.

A flight needs nobody who waits: should whoever asked be cancelled, it goes on to its end; what was sent cannot be unsaid.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from psycopg.waiting import Ready, Wait

from windlass.drivers.postgres.link import Exchange, Link
from windlass.drivers.statement import Op, Statement, T

Ended = Callable[[T | None, Exception | None], None]


class Flight:
    """One borrowed link, on the loop that runs at present. `until`: when its time is over."""

    def __init__(self, link: Link, until: float) -> None:
        self.link = link
        self.until = until
        self.is_given_up = False  # the link is this flight's own from now on
        self.loop = asyncio.get_running_loop()
        self._fd = link.fileno()
        self._waits_for = 0
        self._op: Op[Any] | None = None
        self._ended: Ended[Any] | None = None
        self._exchange: Exchange | None = None

    def is_overdue(self, by: float) -> bool:
        """Whether its connection was cut by then, and nobody has noticed."""
        return self.until <= by and self.link.was_cut

    def carry(self, op: Op[T], ended: Ended[T]) -> None:
        """To its end, which is told once: with what was answered, or with what went wrong."""
        self._op, self._ended = op, ended
        self._go_on(lambda: next(op))

    def _go_on(self, step: Callable[[], Statement]) -> None:
        try:
            statement = step()
        except StopIteration as done:
            self._end(done.value, None)
        except Exception as error:
            self._end(None, error)
        else:
            self._exchange = None
            self._exchange_more(statement)

    def _exchange_more(self, said: Statement | Ready) -> None:
        """A statement begins, or the server has said something, or takes more of what is said to it."""
        op = self._op
        assert op is not None
        try:
            if isinstance(said, Statement):
                self._exchange = self.link.exchange(said)
                wanted = next(self._exchange.steps)
            else:
                assert self._exchange is not None
                wanted = self._exchange.steps.send(said)
        except StopIteration:
            self._go_on(self._answer)
        except Exception as error:
            told = self.link.understood(error)
            self._go_on(lambda: op.throw(told))
        else:
            self._wait_for(wanted)

    def _answer(self) -> Statement:
        """Goes to the operation, which says what comes next."""
        assert self._op is not None
        assert self._exchange is not None
        return self._op.send(self._exchange.rows())

    def _wait_for(self, wanted: int) -> None:
        before, self._waits_for = self._waits_for, wanted
        if wanted & ~before & Wait.R:
            self.loop.add_reader(self._fd, self._exchange_more, Ready.R)
        if wanted & ~before & Wait.W:
            self.loop.add_writer(self._fd, self._exchange_more, Ready.W)
        if before & ~wanted & Wait.R:
            self.loop.remove_reader(self._fd)
        if before & ~wanted & Wait.W:
            self.loop.remove_writer(self._fd)

    def _end(self, answer: Any, error: Exception | None) -> None:
        op, ended = self._op, self._ended
        assert op is not None
        assert ended is not None
        self._wait_for(0)
        op.close()
        self._op = self._ended = self._exchange = None  # they know each other, and hold whole answers
        ended(answer, error)
