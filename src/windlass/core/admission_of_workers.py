"""Checks of the registry of workers and of the leader's duties, before anything is written."""

from __future__ import annotations

from windlass.core.duties import (
    AgeJobs,
    Duty,
    FanOut,
    ForgetEvents,
    ForgetKeys,
    ForgetUsage,
    Mend,
    Prune,
    RecountLimits,
    RemoveDeadWorkers,
    ReturnSpace,
    RollUpUsage,
    SampleQueues,
    TellDependants,
    TidyPositions,
)
from windlass.core.fields import check_all, check_instant, check_limit, check_name, check_number, check_text
from windlass.records import WorkerInfo


def check_worker(worker: WorkerInfo) -> None:
    check_name("worker_id", worker.id)
    for field in ("hostname", "version", "wakeups"):
        check_text(field, getattr(worker, field))
    for field in ("pid", "pool_size", "running"):
        check_number(field, getattr(worker, field))
    check_instant("started_at", worker.started_at)
    for field in ("queues", "types"):
        check_all(field, getattr(worker, field))


def check_duty(duty: Duty) -> None:
    match duty:
        case Prune():
            check_limit(duty.limit)
            for field in ("succeeded", "cancelled", "dead"):
                if getattr(duty, field) is not None:
                    check_number(field, getattr(duty, field))
        case ForgetKeys() | TidyPositions():
            check_limit(duty.limit)
        case RemoveDeadWorkers():
            check_number("silent_for", duty.silent_for)
        case SampleQueues():
            check_number("keep", duty.keep)
            check_number("waits_over", duty.waits_over)
        case FanOut():
            check_limit(duty.limit)
        case ForgetEvents():
            check_limit(duty.limit)
            check_number("keep", duty.keep)
        case ForgetUsage():
            check_limit(duty.limit)
            if duty.keep is not None:
                check_number("keep", duty.keep)
        case RollUpUsage():
            check_limit(duty.limit)
            check_number("until", duty.until)
        case RecountLimits() | AgeJobs() | ReturnSpace() | Mend() | TellDependants():
            check_limit(duty.limit)
