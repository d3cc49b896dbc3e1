"""Is a connection ours from its beginning to its end?

A pooler in transaction mode lends one session of the server to many clients. LISTEN and prepared statements then seem to
work, until another client gets the session: so it is looked for when a store is opened.
"""

from __future__ import annotations

from typing import Final

from windlass.drivers.postgres.link import BEGIN, ROLLBACK, Link
from windlass.drivers.postgres.place import Place
from windlass.drivers.postgres.timed import Timed
from windlass.drivers.statement import Statement
from windlass.errors import PoolerInTheWay

WHO: Final = Statement("select pg_backend_pid()", ())
LOOKS: Final = 3


def check_own_session(link: Link, place: Place) -> None:
    """A direct connection knows its session's number from the start, and costs one look. One that was told another number
    goes through somebody: then a second client sees whether it is given the session of the first."""
    if place.pooled or _session(link) == link.open().info.backend_pid:
        return
    other = Timed(place)
    try:
        for _ in range(LOOKS):
            mine = _session(link)
            other.execute(BEGIN)
            lent, now_mine = _session(other), _session(link)
            other.execute(ROLLBACK)
            if lent == mine or now_mine != mine:
                raise PoolerInTheWay(str(place), "two clients were given one session of the server")
    finally:
        other.give_up()


def _session(link: Link) -> int:
    [(pid,)] = link.execute(WHO)
    return int(pid)
