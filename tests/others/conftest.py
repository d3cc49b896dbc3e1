"""Both stores, where it matters."""

from worker.conftest import url

__all__ = ["url"]
