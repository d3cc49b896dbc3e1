"""The size of the file: pages that deleting has left are used again, and what is too many of them is given back.

A file gives pages back in pieces only if it was made to (`auto_vacuum = incremental`: it knows of each page who points to
it). New files are. An older one has to be written anew for it, once: a small one is when it is opened, of a large one the
doctor tells.
"""

from __future__ import annotations

import logging
from typing import Final

from windlass.core.duties import Done, ReturnSpace
from windlass.drivers.sqlite.library import BUSY, ERRORS, Connection
from windlass.drivers.statement import Op, Statement

INCREMENTAL: Final = 2
KEPT: Final = 256  # pages that may always lie idle, and of the whole file a tenth: what goes today comes again tomorrow
REWRITTEN: Final = 64 << 20  # bytes that are written anew in a moment
WAL_KEPT: Final = 32 << 20  # bytes that the log may keep once it starts over; it grows beyond while somebody reads for long
log: Final = logging.getLogger("windlass.sqlite")


def return_space(duty: ReturnSpace) -> Op[Done]:
    [(mode,)] = yield Statement("pragma auto_vacuum", ())
    [(pages,)] = yield Statement("pragma page_count", ())
    [(free,)] = yield Statement("pragma freelist_count", ())
    many = free - max(KEPT, pages // 10)
    if mode != INCREMENTAL or many <= 0:
        return Done(0)
    goal = free - min(many, duty.limit)
    before, left = free + 1, free
    while goal < left < before:  # the standard library takes one step of it at a time, which is a page
        yield Statement(f"pragma incremental_vacuum({left - goal})", ())
        before = left
        [(left,)] = yield Statement("pragma freelist_count", ())
    return Done(free - left, more=left > free - many and left < free)


def shrinks(connection: Connection) -> bool:
    return connection.execute("pragma auto_vacuum") == [(INCREMENTAL,)]


def make_shrinkable(connection: Connection) -> None:
    """Said to an empty file, it is made so. One that was made before is written anew if it is small; whoever is writing at
    this moment is not waited for, the next opener tries again. Where it cannot be done (an application's table needs a
    function of theirs, the disk is full, there is no place for temporary files) the file serves as it is."""
    if shrinks(connection):
        return
    connection.execute("pragma auto_vacuum = incremental")
    [(pages,)] = connection.execute("pragma page_count")
    [(size,)] = connection.execute("pragma page_size")
    if 0 < pages * size <= REWRITTEN:
        try:
            connection.execute("vacuum")
        except BUSY:
            log.info("the file was not written anew: somebody else uses it")
        except ERRORS as error:
            log.info("the file was not written anew: %s", error)
