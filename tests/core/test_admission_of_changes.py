"""What is refused of the wishes of people and services, before anything is written."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import LAST_INSTANT
from windlass.core.acting import By
from windlass.core.admission import PAYLOAD_LIMIT
from windlass.core.admission_of_changes import MOST, check_alteration, check_alterations
from windlass.core.alterations import (
    Acquire,
    Alteration,
    Cancel,
    CancelGroup,
    CreateToken,
    Delete,
    DeleteWebhook,
    Grant,
    Leave,
    Move,
    MoveBeside,
    Note,
    NoteUse,
    PauseLimit,
    PutGroup,
    PutLimit,
    PutQueue,
    ReleaseHold,
    RemoveLimit,
    Renew,
    Renormalise,
    Replay,
    RetryGroup,
    Revoke,
    RevokeToken,
    RunNow,
    SetPaused,
    SetPriority,
    Swap,
    Unchanged,
)
from windlass.core.fields import KEY_LIMIT, LARGEST, LATEST, NAME_LIMIT
from windlass.errors import InvalidInput, OutOfScope

ANN = By(actor="ann")
QUEUE = PutQueue("q")
AGEING = PutQueue("q", age_after=1, age_to=0)
LIMIT = PutLimit("type:mail")
RATE = PutLimit("type:mail", per_second=1, burst=1)
ORG = PutLimit("org:acme", weight=2)
GROUP = PutGroup("g", 1)
AGAIN = RetryGroup("g", (("a", "a2"), ("b", "b2")))
ACQUIRE = Acquire("h", "q", "ann", 1)
TOKEN = CreateToken(token_id="t", name="ci", digest=bytes(32), scopes=("read",))
NOTE = Note("exported", "jobs")


@pytest.mark.parametrize(
    "change",
    [
        Cancel("a"), RunNow("a"), Delete("a"), Replay("a", "b"), Unchanged(Cancel("a"), 0), Unchanged(Cancel("a"), LARGEST),
        Move("a", "top"), Move("a", "bottom"), MoveBeside("a", "b", "before"), MoveBeside("a", "b", "after"),
        Swap("a", "b"), SetPriority("a", 2**31 - 1), SetPriority("a", -(2**31)), Renormalise("q"), Revoke("w"), Leave("w"),
        QUEUE, replace(QUEUE, positions="dense", order="fair"), SetPaused("q", True), AGEING,
        replace(AGEING, age_after=LATEST, age_to=2**31 - 1), replace(AGEING, age_to=-(2**31)),
        LIMIT, replace(LIMIT, max_used=0), RATE, replace(RATE, per_second=1e-6), replace(RATE, per_second=MOST, burst=MOST),
        ORG, replace(ORG, weight=1e-6), replace(ORG, weight=MOST), RemoveLimit("type:mail"), PauseLimit("type:mail", False),
        replace(QUEUE, preset="x" * KEY_LIMIT, settings="x" * PAYLOAD_LIMIT), Cancel("x" * 5_000),
        Cancel("a", "\ud800\x00" + "x" * 100_000), CancelGroup("g", "\ud800\x00"), replace(LIMIT, declared=True),
        GROUP, replace(GROUP, total=LARGEST, on_failure="skip", name="x" * KEY_LIMIT),
        CancelGroup("g"), AGAIN, RetryGroup("g", ()),
        ACQUIRE, replace(ACQUIRE, expires_in=LATEST), Grant("h", 1), Renew("h", 1), ReleaseHold("h"),
        ReleaseHold("h", "bob"), RevokeToken("t"), NoteUse("t"),
        TOKEN, replace(TOKEN, org_id="acme", queues=("q",), expires_at=LAST_INSTANT),
    ],
)  # fmt: skip
def test_a_sound_change_is_let_in(change: Alteration) -> None:
    check_alterations([change])
    check_alterations([change], ANN)


@pytest.mark.parametrize("note", [NOTE, replace(NOTE, count=0, detail=""), replace(NOTE, detail="x" * KEY_LIMIT)])
def test_a_note_is_let_in_when_it_is_somebodys(note: Note) -> None:
    check_alterations([note], ANN)
    with pytest.raises(InvalidInput, match="actor"):
        check_alterations([Cancel("a"), note])


@pytest.mark.parametrize(
    ("sound", "bad", "field"),
    [
        (Replay("a", "b"), {"child_id": ""}, "id"),
        (Unchanged(Cancel("a"), 0), {"seen": -1}, "seen"),
        (Unchanged(Cancel("a"), 0), {"change": SetPriority("a", 2**31)}, "priority"),
        *(
            (Unchanged(Cancel("a"), 0), {"change": bad}, "change")
            for bad in (None, "cancel", QUEUE, Swap("a", "b"), Unchanged(Cancel("a"), 0))
        ),
        (Move("a", "top"), {"to": "middle"}, "to"),
        (MoveBeside("a", "b", "before"), {"side": "under"}, "side"),
        (MoveBeside("a", "b", "before"), {"other_id": "a"}, "other_id"),
        (Swap("a", "b"), {"other_id": "a"}, "other_id"),
        (SetPriority("a", 0), {"priority": 2**31}, "priority"),
        (SetPriority("a", 0), {"priority": -(2**31) - 1}, "priority"),
        (SetPriority("a", 0), {"priority": True}, "priority"),
        (Renormalise("q"), {"queue": ""}, "queue"),
        (Revoke("w"), {"worker_id": ""}, "worker_id"),
        (Leave("w"), {"worker_id": ""}, "worker_id"),
        (SetPaused("q", True), {"queue": ""}, "queue"),
        (SetPaused("q", True), {"paused": 1}, "paused"),
        (QUEUE, {"name": ""}, "queue"),
        (QUEUE, {"positions": "loose"}, "positions"),
        (QUEUE, {"order": "loose"}, "order"),
        *((AGEING, {"age_after": bad}, "ageing") for bad in (None, 0, LATEST + 1, 1.0, True, "1")),
        *((AGEING, {"age_to": bad}, "ageing") for bad in (None, 2**31, -(2**31) - 1, 1.0, True, "1")),
        (LIMIT, {"key": ""}, "limit"),
        (LIMIT, {"max_used": -1}, "max_used"),
        (LIMIT, {"burst": 1}, "burst"),
        *((RATE, {"per_second": bad}, "rate") for bad in (0, 9e-7, MOST + 1, float("nan"), float("inf"), True, "1")),
        *((RATE, {"burst": bad}, "burst") for bad in (0.9, MOST + 1, float("nan"), float("inf"), True, "1")),
        *((ORG, {"weight": bad}, "weight") for bad in (0, 9e-7, MOST + 1, float("nan"), True, "1", None)),
        (ORG, {"key": "type:mail"}, "weight"),
        (RemoveLimit("type:mail"), {"key": ""}, "limit"),
        (PauseLimit("type:mail", True), {"key": " "}, "limit"),
        (PauseLimit("type:mail", True), {"key": "queue:q"}, "limit"),
        (PauseLimit("type:mail", True), {"paused": 1}, "paused"),
        (GROUP, {"group_id": ""}, "group_id"),
        (GROUP, {"total": 0}, "total"),
        (GROUP, {"total": -1}, "total"),
        (GROUP, {"mode": "spiral"}, "mode"),
        (GROUP, {"mode": "sequential"}, "mode"),
        (GROUP, {"on_failure": "weep"}, "on_failure"),
        (CancelGroup("g"), {"group_id": ""}, "group_id"),
        (AGAIN, {"group_id": ""}, "group_id"),
        (AGAIN, {"members": (("a", "a2"), ("b", ""))}, "id"),
        (AGAIN, {"members": (("a", "a2"), ("a", "b2"))}, "members"),
        (AGAIN, {"members": (("a", "x"), ("b", "x"))}, "members"),
        *((hold, {"hold_id": ""}, "hold_id") for hold in (ACQUIRE, Grant("h", 1), Renew("h", 1), ReleaseHold("h"))),
        (ACQUIRE, {"queue": ""}, "queue"),
        (ACQUIRE, {"by": ""}, "by"),
        (ReleaseHold("h"), {"by": ""}, "by"),
        *((ACQUIRE, {"expires_in": bad}, "expires_in") for bad in (0, LATEST + 1, 1.0, True, None)),
        (Grant("h", 1), {"expires_in": 0}, "expires_in"),
        (Renew("h", 1), {"expires_in": 0}, "expires_in"),
        *((token, {"token_id": ""}, "id") for token in (TOKEN, RevokeToken("t"), NoteUse("t"))),
        (TOKEN, {"name": ""}, "name"),
        *((TOKEN, {"digest": bad}, "digest") for bad in (bytes(31), bytes(33), "x" * 32, None)),
        *((TOKEN, {"scopes": bad}, "scopes") for bad in ((), ["read"], "read", ("",), ("rule",), ("read", "read"))),
        (TOKEN, {"org_id": ""}, "org_id"),
        *((TOKEN, {"queues": bad}, "queues") for bad in ((), ["q"], ("q", ""), ("q", "q"))),
        *((TOKEN, {"expires_at": bad}, "expires_at") for bad in (0, -1, LAST_INSTANT + 1, 1.5)),
        (DeleteWebhook("wh_1"), {"webhook_id": ""}, "webhook_id"),
        # what is looked for is text
        *((Cancel("a"), {"job_id": bad}, "job_id") for bad in (5, None, ["a"], "\x00", "\ud800")),
        *(
            (change, {"job_id": None}, "job_id")
            for change in (Replay("a", "b"), RunNow("a"), Delete("a"), Move("a", "top"))
        ),
        (SetPriority("a", 0), {"job_id": []}, "job_id"),
        *((Swap("a", "b"), {field: 5}, field) for field in ("job_id", "other_id")),
        *((MoveBeside("a", "b", "after"), {field: 5}, field) for field in ("job_id", "other_id")),
        (Unchanged(Cancel("a"), 0), {"change": Cancel("\ud800")}, "job_id"),
        *((AGAIN, {"members": bad}, "members") for bad in (5, "ab", ("ab",), (("a",),), ((5, "a2"),), ((["a"], "a2"),))),
        # free words, settings, switches
        *((change, {"reason": bad}, "reason") for change in (Cancel("a"), CancelGroup("g")) for bad in (5, None, b"x")),
        (Replay("a", "b"), {"reset_attempts": 1}, "reset_attempts"),
        (MoveBeside("a", "b", "before"), {"take_priority": "yes"}, "take_priority"),
        *((QUEUE, {"preset": bad}, "preset") for bad in (5, "\x00", "\ud800", "x" * (KEY_LIMIT + 1))),
        *((QUEUE, {"settings": bad}, "settings") for bad in ({"a": 1}, "\x00", "\ud800", "x" * (PAYLOAD_LIMIT + 1))),
        *((GROUP, {"name": bad}, "name") for bad in (5, None, "\x00", "\ud800", "x" * (KEY_LIMIT + 1))),
        (GROUP, {"mode": []}, "mode"),
        (LIMIT, {"declared": "yes"}, "declared"),
        # whole numbers that Python does not write out
        (AGEING, {"age_after": 10**5000}, "ageing"),
        (AGEING, {"age_to": 10**5000}, "ageing"),
        (SetPriority("a", 0), {"priority": 10**5000}, "priority"),
        (ACQUIRE, {"expires_in": 10**5000}, "expires_in"),
        (SetPaused("q", True), {"paused": 10**5000}, "paused"),
        (GROUP, {"total": 10**5000}, "total"),
    ],
    ids=count(),  # pytest cannot write out all of them either
)
def test_a_bad_change_is_refused_by_the_name_of_its_field(sound: Alteration, bad: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_alterations([Cancel("a"), replace(sound, **bad)])
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"action": ""}, "action"), ({"subject": ""}, "subject"), ({"count": -1}, "count"), ({"detail": "\x00"}, "detail"),
        ({"detail": "x" * (KEY_LIMIT + 1)}, "detail"),
    ],
)  # fmt: skip
def test_a_bad_note_is_refused_by_the_name_of_its_field(bad: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_alterations([replace(NOTE, **bad)], ANN)
    assert refused.value.field == field


@pytest.mark.parametrize("bad", [None, "cancel", 5, ANN])
def test_what_is_no_wish_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^changes: "):
        check_alterations([Cancel("a"), bad])


def test_who_changes_something_has_a_name() -> None:
    with pytest.raises(InvalidInput, match="actor"):
        check_alterations([Cancel("a")], By(actor=" "))


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"org_id": "\x00"}, "org_id"), ({"org_id": 5}, "org_id"), ({"org_id": "x" * (NAME_LIMIT + 1)}, "org_id"),
        ({"queues": 5}, "queues"), ({"queues": "q"}, "queues"), ({"queues": ("q", "")}, "queues"),
        ({"selection": "\ud800"}, "selection"),
    ],
)  # fmt: skip
def test_what_is_noted_of_who_changes_something_can_be_stored(bad: dict[str, Any], field: str) -> None:
    check_alterations([Cancel("a")], By(actor="ann", org_id="acme", queues=(), selection="x" * 5_000))
    with pytest.raises(InvalidInput) as refused:
        check_alterations([Cancel("a")], By(actor="ann", **bad))
    assert refused.value.field == field


def test_of_names_in_a_token_the_one_is_told_that_comes_twice() -> None:
    queues = tuple(f"q{number}" for number in range(10_000))
    with pytest.raises(InvalidInput, match=r"^queues: names one twice: 'q7'$"):
        check_alteration(replace(TOKEN, queues=(*queues, "q7")))


def test_who_is_bound_changes_nothing_beyond() -> None:
    check_alterations([Cancel("a")], By(actor="ann", org_id="acme"))
    with pytest.raises(OutOfScope):
        check_alterations([Cancel("a"), QUEUE], By(actor="ann", org_id="acme"))


def test_a_hold_is_granted_in_a_later_call_than_the_one_that_acquires_it() -> None:
    check_alterations([ACQUIRE, Grant("other", 1), Renew("h", 1)])
    check_alterations([Grant("h", 1), Renew("h", 1)])
    with pytest.raises(InvalidInput, match="hold_id"):
        check_alterations([Grant("h", 1), ACQUIRE])


@pytest.mark.parametrize("expires_at", [0, -1, LAST_INSTANT + 1, 1.5])
def test_the_end_of_a_token_is_a_time_and_what_was_given_is_told(expires_at: Any) -> None:
    with pytest.raises(InvalidInput, match=f"expires_at: .* got {expires_at}$"):
        check_alteration(replace(TOKEN, expires_at=expires_at))


@pytest.mark.parametrize(
    ("amount", "told"),
    [
        (0, "0"), (float("inf"), "inf"), (True, "True"), ("x" * 99, f"'{'x' * 79}"),
        (2**64 - 1, "18446744073709551615"), (2**64, "a number of 65 bits"), (2**99_999, "a number of 100000 bits"),
    ],
    ids=range(7),  # pytest cannot write out the last either
)  # fmt: skip
def test_an_amount_that_is_refused_is_told_unless_it_is_endless(amount: Any, told: str) -> None:
    for field, change in (("rate", replace(RATE, per_second=amount)), ("burst", replace(RATE, burst=amount))):
        with pytest.raises(InvalidInput, match=f"{field}: .*, got {told}$"):
            check_alteration(change)
