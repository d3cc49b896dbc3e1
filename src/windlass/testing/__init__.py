"""Proofs for drivers, and tools for tests. Install with `pip install windlass[testing]`.

For tests of your own jobs nothing more is needed than this: `from windlass.testing import testing`. In pytest the fixture
`windlass` is the same (`windlass.testing.plugin`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.testing.app import Testing, testing
    from windlass.testing.enqueued import EnqueuedJob
    from windlass.testing.faults import Faults, WorkerDied

__all__ = ["EnqueuedJob", "Faults", "Testing", "WorkerDied", "testing"]


def __getattr__(name: str) -> Any:
    """On first use, so that whoever wants one tool does not import the others."""
    if name == "EnqueuedJob":
        from windlass.testing.enqueued import EnqueuedJob

        return EnqueuedJob
    if name in ("Faults", "WorkerDied"):
        from windlass.testing import faults

        return getattr(faults, name)
    if name in __all__:
        from windlass.testing import app

        return getattr(app, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
