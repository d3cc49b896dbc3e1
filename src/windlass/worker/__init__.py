"""The process that runs jobs. Claimer, slots, keeper, settler and sweeper are separate parts that share the holdings."""

from windlass.worker.stats import Stats
from windlass.worker.worker import Worker

__all__ = ["Stats", "Worker"]
