"""`windlass demo`: a thousand jobs on a fresh SQLite file, a worker killed in the middle, and a check that nothing was
lost. Ends by itself; the exit code is the check's."""

from windlass.demo.show import main

__all__ = ["main"]
