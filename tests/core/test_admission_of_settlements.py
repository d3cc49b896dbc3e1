"""What is refused of what workers tell of the jobs that they hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace as but

from windlass.clock import LAST_INSTANT
from windlass.core.admission_of_settlements import check_renewal, check_settlement, check_settlements
from windlass.core.changes import (
    Ack,
    AddEvent,
    Cancelled,
    CountMember,
    Expire,
    Fail,
    Release,
    Report,
    Retry,
    RetryChild,
    Settlement,
    Snooze,
)
from windlass.core.counters import MOST_COUNTED
from windlass.errors import InvalidInput

HOLDS: dict[str, Any] = {"handle": (1, 1), "token": "t", "at": 0}
ACK = Ack(**HOLDS)
RETRY = Retry(**HOLDS, run_at=None, attempts=0, error="")
FAIL = Fail(**HOLDS, kind="exhausted", reason="")
SNOOZE = Snooze(**HOLDS, run_at=0)
CHILD = RetryChild("b", None, 0)
MEMBER = CountMember("g", "failed")
EVENT = AddEvent("job.dead", "a", None, "{}")


@dataclass(frozen=True)
class Renewed:
    handle: Any = (1, 1)
    token: str = "t"  # noqa: S105 - of a lease, no secret
    started_at: int | None = None
    progress: float | None = None
    progress_note: str | None = None


@pytest.mark.parametrize(
    "renewal",
    [
        Renewed(), Renewed("a job's id"), Renewed(started_at=0), Renewed(started_at=LAST_INSTANT),
        Renewed(progress=0.5, progress_note="\ud800\x00" + "x" * 100_000),
    ],
)  # fmt: skip
def test_a_sound_renewal_is_let_in(renewal: Renewed) -> None:
    check_renewal(renewal)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        *(({"handle": bad}, "handle") for bad in (None, 5, {5}, "\ud800", "\x00")),
        *(({"token": bad}, "token") for bad in (None, 5, "\ud800", "\x00")),
        *(({"started_at": bad}, "started_at") for bad in (-1, LAST_INSTANT + 1, 2**14_000, 1.5, True, "now")),
        *(({"progress": bad}, "progress") for bad in (-0.1, "half", 2**14_000)),
        *(({"progress_note": bad}, "progress_note") for bad in (5, {5}, b"half", 2**14_000)),
    ],
    ids=count(),
)
def test_a_bad_renewal_is_refused_by_the_name_of_its_field(bad: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_renewal(replace(Renewed(), **bad))
    assert refused.value.field == field


@pytest.mark.parametrize(
    "change",
    [
        ACK, but(ACK, handle="a job's id"), but(ACK, at=LAST_INSTANT, started_at=0, result=b"", report=Report()),
        but(ACK, report=Report("\ud800", -1, 2**70, 1.5, "\ud800", ("\ud800",))),  # type: ignore[arg-type] # made whole
        but(ACK, riders=(MEMBER, EVENT, but(EVENT, org_id="acme"))),
        RETRY, but(RETRY, run_at=2**70, attempts=MOST_COUNTED, error="\ud800" * 100_000, failed_at=0, lapsed=True),
        FAIL, but(FAIL, attempts=0, error="\ud800", run_status="skipped", superseded_by="b", riders=(CHILD,)),
        but(FAIL, riders=(but(CHILD, run_at=-(2**70), attempts=MOST_COUNTED, manual=True),)),
        SNOOZE, but(SNOOZE, run_at=-(2**70), reason="\x00"), Release(**HOLDS), Cancelled(**HOLDS),
        Cancelled(**HOLDS, reason="\ud800"), Expire(**HOLDS, lapsed=True),
    ],
)  # fmt: skip
def test_a_sound_end_is_let_in(change: Settlement) -> None:
    check_settlement(change)


@pytest.mark.parametrize(
    ("sound", "bad", "field"),
    [
        *((ACK, {"handle": bad}, "handle") for bad in (None, 5, {5}, "\ud800")),
        *((ACK, {"token": bad}, "token") for bad in (None, 5, "\ud800", "\x00")),
        *((ACK, {"at": bad}, "at") for bad in (-5, 2**61, LAST_INSTANT + 1, 2**14_000, 1.5, True, None, "now")),
        *((ACK, {"started_at": bad}, "started_at") for bad in (-1, 2**61, 2**14_000, 1.5, "now")),
        *((ACK, {"lapsed": bad}, "lapsed") for bad in (1, None)),
        *((ACK, {"result": bad}, "result") for bad in ("{}", 5)),
        *((ACK, {"riders": bad}, "riders") for bad in (None, 5, "riders", (None,), (ACK,))),
        (ACK, {"report": 5}, "report"),
        *(
            (ACK, {"report": but(Report(), **{field: bad})}, field)
            for field in ("exit_code", "cpu_us", "peak_rss") for bad in ("x", float("nan"), float("inf"), True)
        ),
        *((ACK, {"report": but(Report(), **{field: 5})}, field) for field in ("traceback", "log_path")),
        *((ACK, {"report": but(Report(), artifacts=bad)}, "artifacts") for bad in (5, "out.csv", (5,), None)),
        *((RETRY, {"attempts": bad}, "attempts") for bad in (-1, 2**70, MOST_COUNTED + 1, 1.0, None)),
        *((change, {"run_at": bad}, "run_at") for change in (RETRY, SNOOZE) for bad in (1.5, "soon", True)),
        (RETRY, {"failed_at": -1}, "failed_at"),
        *((RETRY, {"error": bad}, "error") for bad in (5, None, 2**14_000)),
        (FAIL, {"error": 5}, "error"),
        (FAIL, {"attempts": -1}, "attempts"),
        (FAIL, {"kind": "bored"}, "kind"),
        (FAIL, {"run_status": "bored"}, "run_status"),
        (FAIL, {"superseded_by": ""}, "id"),
        *((change, {"reason": 5}, "reason") for change in (FAIL, SNOOZE, Release(**HOLDS), Cancelled(**HOLDS))),
        *((change, {"reason": None}, "reason") for change in (FAIL, SNOOZE, Release(**HOLDS), Expire(**HOLDS))),
        (FAIL, {"riders": (but(CHILD, id=""),)}, "id"),
        (FAIL, {"riders": (but(CHILD, run_at=1.5),)}, "run_at"),
        (FAIL, {"riders": (but(CHILD, attempts=-1),)}, "attempts"),
        (FAIL, {"riders": (but(CHILD, manual=1),)}, "manual"),
        (ACK, {"riders": (but(MEMBER, group_id=None),)}, "group_id"),
        (ACK, {"riders": (but(MEMBER, ending="bored"),)}, "ending"),
        *((ACK, {"riders": (but(EVENT, **{field: "\ud800"}),)}, field) for field in ("event", "job_id", "org_id", "body")),
    ],
    ids=count(),
)  # fmt: skip
def test_a_bad_end_is_refused_by_the_name_of_its_field(sound: Settlement, bad: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_settlement(but(sound, **bad))
    assert refused.value.field == field


@pytest.mark.parametrize("bad", [None, "ack", 5, CHILD])
def test_what_is_no_end_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^changes: "):
        check_settlement(bad)


def test_of_a_batch_the_clock_and_each_are_looked_at() -> None:
    check_settlements([ACK, RETRY], 0)
    with pytest.raises(InvalidInput, match="now"):
        check_settlements([], -1)
    with pytest.raises(InvalidInput, match="at"):
        check_settlements([ACK, but(ACK, at=-1)], 0)
