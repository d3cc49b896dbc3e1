"""What a power cut would leave of a file, if the disk told the truth: copies that are taken while somebody writes, at any
moment of that, opened as a machine that comes back would."""

from __future__ import annotations

import random
import shutil
import signal
from functools import partial
from pathlib import Path

from .fleet import Fleet
from .history import History

COPIES = 12


def _so_many(fleet: Fleet, wanted: int) -> bool:
    return len(fleet.acknowledged()) >= wanted


def test_a_copy_that_was_taken_in_the_middle_of_writes_is_sound(tmp_path: Path) -> None:
    dice = random.Random(5)
    with Fleet(tmp_path, lease="2s") as fleet:
        writers = [fleet.start("enqueue", "0", "1000000"), fleet.start("run")]
        fleet.until_born(*writers)
        for number in range(COPIES):
            wanted = len(fleet.acknowledged()) + dice.randrange(5, 40)
            fleet.until("some more are acknowledged", partial(_so_many, fleet, wanted))
            for writer in writers:  # they stand still wherever they are, in a transaction too
                writer.signal(signal.SIGSTOP)
            fleet.until("nobody moves", lambda: all(writer.is_stopped() for writer in writers))
            accepted, copy = fleet.acknowledged(), tmp_path / f"copy{number}.db"
            shutil.copy(fleet.store, copy)
            shutil.copy(f"{fleet.store}-wal", f"{copy}-wal")
            log = shutil.copy(fleet.log, tmp_path / f"copy{number}.log")
            for writer in writers:
                writer.signal(signal.SIGCONT)
            # Handlers that told of a start or an end a moment ago may not have said so to the store.
            lost = [
                one
                for one in History.read(copy, Path(log)).problems(accepted, ended=False)
                if "gone" in one or "damaged" in one
            ]
            assert lost == []
