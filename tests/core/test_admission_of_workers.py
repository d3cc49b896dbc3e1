"""What is refused of workers and of the leader among them: claims, leases, progress, the registry, duties."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec.structs import replace as but

from windlass.clock import LAST_INSTANT
from windlass.core import duties
from windlass.core.admission import check_claim
from windlass.core.admission_of_workers import check_duty, check_worker
from windlass.core.duties import Duty
from windlass.core.fields import LARGEST, LATEST, check_lease, check_now, check_progress
from windlass.errors import InvalidInput, InvalidLeaseDuration
from windlass.records import WorkerInfo

from .make import LEASE, NOW


@dataclass(frozen=True)
class Wish:
    queues: tuple[str, ...] = ("q",)
    types: tuple[str, ...] | None = None
    limit: int = 1
    lease_for: int = LEASE
    worker_id: str = "w1"
    token: str = "t1"  # noqa: S105 - of a lease, no secret
    unhandled: bool = False
    start: bool = True
    reclaim: bool = True
    sure: bool = True


WORKER = WorkerInfo(
    id="host:1:x", hostname="", pid=0, pool_size=0, version="", queues=("q",), types=("mail",), wakeups="", running=0,
    started_at=0,
)  # fmt: skip


@pytest.mark.parametrize("types", [None, (), ("mail", "a/b")])
def test_a_sound_claim_is_let_in(types: tuple[str, ...] | None) -> None:
    check_claim(Wish(types=types), NOW)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"queues": ()}, "queues"), ({"queues": ("q", "")}, "queue"), ({"types": ("mail", "")}, "types"),
        ({"types": (5,)}, "types"), ({"types": "mail"}, "types"), ({"types": 5}, "types"),
        ({"limit": 10**5000}, "limit"), ({"lease_for": 10**5000}, "lease_for"),
        ({"limit": 0}, "limit"), ({"worker_id": ""}, "worker_id"), ({"token": " "}, "token"),
        *(({field: bad}, field) for field in ("unhandled", "start", "reclaim", "sure") for bad in ("", 1, None)),
    ],
)  # fmt: skip
def test_a_bad_claim_is_refused_by_the_name_of_its_field(bad: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_claim(replace(Wish(), **bad), NOW)
    assert refused.value.field == field


def test_a_claim_is_for_a_lease_and_at_a_time() -> None:
    with pytest.raises(InvalidLeaseDuration):
        check_claim(Wish(lease_for=0), NOW)
    with pytest.raises(InvalidInput, match="now"):
        check_claim(Wish(), -1)


def test_the_shortest_lease_is_a_microsecond_and_the_longest_still_fits_after_now() -> None:
    check_lease(1)
    check_lease(LATEST)
    check_now(0)
    check_now(LATEST)
    assert NOW + LATEST <= LAST_INSTANT
    assert LATEST + LATEST <= LAST_INSTANT


@pytest.mark.parametrize("lease_for", [0, -1, LATEST + 1, 1.0, True, "1", None])
def test_a_lease_that_is_none_is_refused(lease_for: object) -> None:
    with pytest.raises(InvalidLeaseDuration):
        check_lease(lease_for)


@pytest.mark.parametrize("now", [-1, LATEST + 1, 1.0, True, "1", None, 10**5000], ids=range(7))
def test_now_is_a_time(now: object) -> None:
    with pytest.raises(InvalidInput, match="now"):
        check_now(now)


@pytest.mark.parametrize("progress", [None, 0, 0.0, 0.4, 1, 1.0])
def test_progress_is_nothing_or_between_nought_and_one(progress: float | None) -> None:
    check_progress(progress)


@pytest.mark.parametrize(
    "progress", [-0.1, 1.1, float("nan"), float("inf"), -float("inf"), 2**1024, 10**5000, "x", [], True], ids=range(10)
)
def test_progress_outside_is_refused(progress: object) -> None:
    with pytest.raises(InvalidInput, match="progress"):
        check_progress(progress)


def test_a_sound_worker_is_let_in() -> None:
    check_worker(WORKER)
    check_worker(but(WORKER, pid=LARGEST, started_at=LAST_INSTANT, queues=(), types=()))


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        *((field, bad) for field in ("hostname", "version", "wakeups") for bad in (None, "\x00")),
        *((field, bad) for field in ("pid", "pool_size", "running") for bad in (-1, 1.0, LARGEST + 1)),
        *((field, bad) for field in ("queues", "types") for bad in (("",), ("a", 5), "a", None, 5)),
        ("started_at", -1), ("started_at", LAST_INSTANT + 1), ("started_at", None),
    ],
)  # fmt: skip
def test_a_bad_worker_is_refused_by_the_name_of_its_field(field: str, bad: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_worker(but(WORKER, **{field: bad}))
    assert refused.value.field == field


def test_the_id_of_a_worker_is_a_name() -> None:
    with pytest.raises(InvalidInput, match="worker_id"):
        check_worker(but(WORKER, id=" "))


WHOLE: dict[Duty, tuple[str, ...]] = {  # what of it is a count or a time; that of `limit` is a batch
    duties.Prune(succeeded=0, cancelled=0, dead=0): ("succeeded", "cancelled", "dead"),
    duties.ForgetKeys(): (),
    duties.TidyPositions(): (),
    duties.RemoveDeadWorkers(silent_for=0): ("silent_for",),
    duties.SampleQueues(keep=0): ("keep", "waits_over"),
    duties.FanOut(): (),
    duties.ForgetEvents(keep=0): ("keep",),
    duties.ForgetUsage(keep=0): ("keep",),
    duties.RollUpUsage(until=0): ("until",),
    duties.RecountLimits(): (),
    duties.AgeJobs(): (),
    duties.ReturnSpace(): (),
    duties.Mend(): (),
}


@pytest.mark.parametrize("duty", [*WHOLE, duties.Prune(), duties.ForgetUsage()], ids=repr)
def test_a_sound_duty_is_let_in(duty: Duty) -> None:
    check_duty(duty)


@pytest.mark.parametrize(
    ("duty", "field", "bad"),
    [
        *((duty, field, bad) for duty, fields in WHOLE.items() for field in fields for bad in (-1, 1.0, LARGEST + 1)),
        *((duty, "limit", bad) for duty in WHOLE if hasattr(duty, "limit") for bad in (0, None)),
    ],
)
def test_a_bad_duty_is_refused_by_the_name_of_its_field(duty: Duty, field: str, bad: object) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_duty(but(duty, **{field: bad}))
    assert refused.value.field == field
