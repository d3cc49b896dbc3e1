"""The worker: the process that runs jobs. Claimer, slots, keeper, settler and sweeper are separate parts; they share the
holdings.
"""

from windlass.worker.stats import Stats
from windlass.worker.worker import Worker

__all__ = ["Stats", "Worker"]
