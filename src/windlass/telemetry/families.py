"""Every metric there is, as data: what is exposed, the reference page, the dashboard and the alerts all go by this table.

Labels are names that the operator chose (queues, tasks) or words of ours, never ids: the number of series is bounded.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["gauge", "counter", "histogram"]
Where = Literal["serve", "worker"]

# Seconds. From a job that a hot queue starts at once to one that waited for an hour.
BOUNDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0,
)  # fmt: skip


class Family(NamedTuple):
    """`series` of a histogram are three: buckets, sum and count."""

    name: str
    kind: Kind
    where: Where
    says: str
    labels: tuple[str, ...] = ()

    @property
    def series(self) -> tuple[str, ...]:
        return (
            tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
            if self.kind == "histogram"
            else (self.name,)
        )


def _serve(name: str, kind: Kind, says: str, *labels: str) -> Family:
    return Family(f"windlass_{name}", kind, "serve", says, labels)


def _worker(name: str, kind: Kind, says: str, *labels: str) -> Family:
    return Family(f"windlass_worker_{name}", kind, "worker", says, labels)


# Of the store, by `windlass serve`.
JOBS: Final = _serve(
    "jobs", "gauge", "Jobs that have not ended, and dead letters, by label, as of the last sample.", "queue", "label"
)
OLDEST: Final = _serve(
    "queue_oldest_seconds", "gauge", "How long the oldest job that is due had waited at the last sample.", "queue"
)
ENDED: Final = _serve("queue_ended", "gauge", "Runs that ended in the last sampled minute, by status.", "queue", "status")
RECENT_WAIT: Final = _serve(
    "queue_wait_seconds", "gauge", "How long runs that ended in the last sampled minute had waited.", "queue", "quantile"
)
RECENT_RUN: Final = _serve(
    "queue_run_seconds", "gauge", "How long runs that ended in the last sampled minute took.", "queue", "quantile"
)
PAUSED: Final = _serve(
    "queue_paused", "gauge", "1 while nothing of the queue is claimed because somebody paused it.", "queue"
)
HELD: Final = _serve("queue_held", "gauge", "1 while the queue is held for direct execution.", "queue")
LEFT_OUT: Final = _serve(
    "queues_left_out", "gauge", "Queues that are not told of here: there are more than 1,000, and others have more jobs."
)
SAMPLE_AGE: Final = _serve("sample_age_seconds", "gauge", "Age of the last sample; none while nobody samples.")
WORKERS: Final = _serve("workers", "gauge", "Workers that are alive.")
SLOTS: Final = _serve("slots", "gauge", "What these workers can run at once.")
BUSY: Final = _serve("slots_busy", "gauge", "Slots of theirs that hold a job.")
LEADER: Final = _serve("has_leader", "gauge", "1 while a worker leads.")
STREAMS: Final = _serve("event_streams", "gauge", "Open streams of events.")
ANSWERS: Final = _serve("http_answers_total", "counter", "Answers of this process.", "method", "route", "status")

# Of one process, by `windlass worker --metrics`.
INFO: Final = _worker("info", "gauge", "1, with the name of the worker and its version.", "worker", "version")
CAPACITY: Final = _worker("slots", "gauge", "What this worker can run at once.")
HOLDINGS: Final = _worker("held", "gauge", "Jobs that it holds: prefetched, running, or ended and not stored yet.")
STUCK: Final = _worker("stuck", "gauge", "Handlers that do not stop although their time is over; their slots stay taken.")
REACHABLE: Final = _worker("store_reachable", "gauge", "0 while outcomes cannot be stored and nothing is claimed.")
STOPPING: Final = _worker("stopping", "gauge", "1 from the first signal on.")
CLAIMED: Final = _worker("claimed_total", "counter", "Jobs claimed.")
RESCUED: Final = _worker("rescued_total", "counter", "Jobs claimed whose earlier worker was lost.")
SWEPT: Final = _worker("recovered_total", "counter", "Lapsed leases of anybody that its sweep took back.")
LOST: Final = _worker("leases_lost_total", "counter", "Leases of its own that it lost while it held them.")
LATE: Final = _worker("settled_late_total", "counter", "Outcomes that came too late and were refused.")
ERRORS: Final = _worker("store_errors_total", "counter", "Calls of the store that failed.")
SETTLED: Final = _worker("runs_total", "counter", "Runs that ended, by outcome.", "queue", "task", "outcome")
WAIT: Final = _worker("wait_seconds", "histogram", "From when a job could have run to the begin of its handler.", "queue")
RUN: Final = _worker("run_seconds", "histogram", "From the begin of a handler to its end.", "queue", "task")
CLAIM: Final = _worker("claim_seconds", "histogram", "How long the store took to answer a claim.")
SETTLE: Final = _worker("settle_seconds", "histogram", "How long the store took to keep a batch of outcomes.")

FAMILIES: Final = tuple(value for value in globals().values() if isinstance(value, Family))
