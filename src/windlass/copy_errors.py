"""What is raised by a store that is copied, or has moved, and by whoever may not copy one."""

from __future__ import annotations

from windlass.errors import StoreError, WindlassError


class StoreMoved(StoreError):
    """All that was in the store is in another one now, or is on its way there. Nothing was changed, and nothing will be
    here, unless the move is given up before it is done."""

    def __init__(self, where: str, moved_to: str) -> None:
        self.moved_to = moved_to
        super().__init__(
            f"{where}: this store has moved to {moved_to}; name that one instead: --store, WINDLASS_URL or the program's "
            "own Windlass(...)"
        )


class StoreMoving(StoreError):
    """Somebody copies the store, and this has to wait until that is done or given up."""

    retryable = True

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}; try again, or see how far it is: windlass copy SRC DST --dry-run")


class CopyRefused(WindlassError):
    """A store cannot be copied as things are. What was said about it is true; the rest is as it was before."""
