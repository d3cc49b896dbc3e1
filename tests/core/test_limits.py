"""What bounds jobs by key: how many more may run, when the next token comes, and what a claim takes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from windlass.clock import SECOND
from windlass.core.alterations import PutLimit
from windlass.core.limits import (
    LOOK_AGAIN,
    Books,
    caps,
    concerns,
    declaration,
    described,
    is_derived,
    is_news,
    is_overlooked,
    is_shut,
    kind_of,
    let_through,
    limit_key,
    next_refill,
    next_token,
    parked,
    room,
    taken,
    tokens_at,
)
from windlass.errors import InvalidInput
from windlass.types import Limit

from .make import NOW

HALF = SECOND // 2


def plain(key: str = "key:gpu", **fields: Any) -> Limit:
    return Limit(key=key, **fields)


def rated(key: str = "key:gpu", **fields: Any) -> Limit:
    """Two tokens a second, at most four; now there are two."""
    return Limit(key=key, **{"per_second": 2.0, "burst": 4.0, "tokens": 0.0, "refilled_at": NOW - SECOND, **fields})


# ------------------------------------------------------------------------------------------------------------------- keys


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("gpu", "key:gpu"), ("global", "global"),
        *((text, text) for text in ("type:x", "key:a:b", "org:o", "tag:t", "queue:q")),
    ],
)  # fmt: skip
def test_a_plain_name_stands_for_a_key_of_jobs_that_name_it(text: str, key: str) -> None:
    assert limit_key(text) == key


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "such as"), ("  ", "such as"), (None, "such as"), (5, "such as"), ("tpye:x", "is no"), ("type:", "is no"),
        (":", "is no"),
    ],
)  # fmt: skip
def test_what_is_no_key_is_refused(text: object, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        limit_key(text)


@pytest.mark.parametrize(
    ("key", "kind", "derived", "cap"),
    [
        ("global", ("global", ""), True, True), ("queue:q", ("queue", "q"), True, True),
        ("type:x", ("type", "x"), True, False),
        ("tag:t", ("tag", "t"), True, False), ("org:o", ("org", "o"), True, False),
        ("key:z", ("key", "key:z"), False, False),
    ],
)  # fmt: skip
def test_a_key_says_whom_it_concerns(key: str, kind: tuple[str, str], derived: bool, cap: bool) -> None:
    assert (kind_of(key), is_derived(key), caps(key)) == (kind, derived, cap)


@pytest.mark.parametrize(
    ("key", "org_id", "concerned"),
    [
        ("global", None, True), ("queue:q", None, True), ("queue:r", None, False), ("type:x", None, True),
        ("key:z", None, True),
        ("tag:t", None, True), ("org:o", "o", True), ("org:o", None, False), ("org:None", None, False),
        ("type:y", None, False),
    ],
)  # fmt: skip
def test_a_job_is_concerned_by_what_it_is_and_what_it_names(key: str, org_id: str | None, concerned: bool) -> None:
    assert concerns(key, queue="q", kind="x", org_id=org_id, tags=("t",), limit_keys=("key:z",)) is concerned


# ------------------------------------------------------------------------------------------------------------------- room


@pytest.mark.parametrize(
    ("limit", "shut", "left"),
    [
        (plain(), False, None), (plain(max_used=3, used=1), False, 2), (plain(max_used=3, used=3), True, 0),
        (plain(max_used=3, used=5), True, 0), (plain(paused_at=1), True, 0), (rated(), False, 2),
        (rated(paused_at=1), True, 0),
        (rated(max_used=1), False, 1), (rated(max_used=3), False, 2), (rated(tokens=9.0), False, 4),
    ],
)  # fmt: skip
def test_so_many_more_may_be_claimed(limit: Limit, shut: bool, left: int | None) -> None:
    assert (is_shut(limit), room(limit, NOW)) == (shut, left)


def test_without_a_limit_any_number_may_be_claimed() -> None:
    assert room(None, NOW) is None


@pytest.mark.parametrize(
    ("refilled_at", "count", "left", "at"),
    [(NOW - SECOND, 1, 1.0, NOW), (NOW - SECOND, 3, 0.0, NOW), (NOW + SECOND, 1, 0.0, NOW + SECOND)],
)
def test_a_claim_takes_permits_and_tokens(refilled_at: int, count: int, left: float, at: int) -> None:
    assert taken(plain(used=1), NOW, count) == plain(used=1 + count)
    after = taken(rated(refilled_at=refilled_at), NOW, count)
    assert after == rated(used=count, tokens=left, refilled_at=at), "also when another clock is ahead"


def test_the_next_token_comes_at_the_rate_and_not_before_the_clock_that_is_ahead() -> None:
    assert next_token(rated(), NOW) == NOW + HALF
    assert next_token(rated(tokens=0.5), NOW) == NOW + HALF // 2
    assert next_token(rated(refilled_at=NOW + SECOND), NOW) == NOW + SECOND + HALF


@pytest.mark.parametrize(
    ("limit", "wake_at"),
    [
        (rated(), NOW + HALF), (rated(wake_at=7), 7), (rated(paused_at=1), None), (rated(max_used=1, used=1), None),
        (plain(max_used=1, used=1), None), (plain(), None),
    ],
)  # fmt: skip
def test_who_is_parked_is_woken_by_the_next_token_and_else_by_a_change(limit: Limit, wake_at: int | None) -> None:
    assert parked(limit, NOW) == replace(limit, wake_at=wake_at)


@pytest.mark.parametrize(
    ("limit", "waiting", "missed", "after"),
    [
        (rated(), True, False, rated(wake_at=NOW + HALF)), (rated(), False, False, rated()),
        (rated(paused_at=1), True, False, rated(paused_at=1)), (plain(), True, False, plain()),
        (rated(wake_at=NOW + 1), False, False, rated()), (plain(), False, True, plain(wake_at=NOW + LOOK_AGAIN)),
        (rated(), True, True, rated(wake_at=NOW + HALF)), (rated(), False, True, rated(wake_at=NOW + LOOK_AGAIN)),
        (rated(per_second=0.1), True, True, rated(per_second=0.1, wake_at=NOW + LOOK_AGAIN)),
        (rated(wake_at=NOW), True, False, rated(wake_at=NOW + HALF, tokens=2.0, refilled_at=NOW)),
        (rated(wake_at=NOW - 1), False, False, rated(tokens=2.0, refilled_at=NOW)),
        (rated(wake_at=NOW + 1), True, False, rated(wake_at=NOW + HALF)), (plain(wake_at=NOW), False, False, plain()),
        (rated(wake_at=NOW, refilled_at=NOW + 9), False, False, rated(refilled_at=NOW + 9)),
    ],
)  # fmt: skip
def test_when_to_look_again_and_a_token_that_was_waited_for_is_there(
    limit: Limit, waiting: bool, missed: bool, after: Limit
) -> None:
    found = let_through(limit, NOW, waiting=waiting, missed=missed)
    assert found == after
    assert (found is limit) is (limit == after), "what is as it was is not written"


@pytest.mark.parametrize(
    ("limit", "overlooked"),
    [
        (None, True), (plain(), True), (plain(max_used=1), True), (plain(max_used=1, used=1), False),
        (plain(paused_at=1), False),
        (rated(), True), (rated(wake_at=NOW + 1), False),
    ],
)  # fmt: skip
def test_a_key_with_room_is_overlooked_unless_a_claim_will_look_at_it(limit: Limit | None, overlooked: bool) -> None:
    assert is_overlooked(limit, NOW) is overlooked


@pytest.mark.parametrize(
    ("limits", "at"),
    [
        ([], None), ([plain(), rated()], None), ([rated(wake_at=NOW + 7), plain(wake_at=NOW + 9)], NOW + 7),
        ([rated("global", refilled_at=NOW)], NOW + HALF), ([rated("queue:q", refilled_at=NOW)], NOW + HALF),
        ([rated("key:x", refilled_at=NOW)], None), ([rated("global", refilled_at=NOW - HALF)], None),
        ([rated("global", refilled_at=NOW, paused_at=1)], None), ([plain("global")], None),
        ([rated("global", refilled_at=NOW), rated(wake_at=NOW + SECOND)], NOW + HALF),
    ],
)  # fmt: skip
def test_a_claim_comes_back_for_the_first_token_that_is_missing(limits: list[Limit], at: int | None) -> None:
    assert next_refill(limits, NOW) == at


# ------------------------------------------------------------------------------------------------------------ description


def test_a_program_is_obeyed_when_it_says_something_new() -> None:
    said, other = (PutLimit("key:gpu", max_used=most, declared=True) for most in (1, 2))
    limit = described(plain(), said, NOW)
    assert limit.declared == declaration(said)
    assert [is_news(limit, change) for change in (said, other)] == [False, True]
    assert is_news(None, said)
    by_hand = PutLimit("key:gpu", max_used=1)
    assert is_news(limit, by_hand)
    assert is_news(replace(limit, declared=declaration(by_hand)), by_hand)
    assert described(limit, by_hand, NOW).declared == declaration(said), "what a person says is no declaration"


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        (plain(used=2), {"max_used": 3, "weight": 2.0}, plain(used=2, max_used=3, weight=2.0)),
        (rated(wake_at=7), {"max_used": 3}, plain(max_used=3)),
        (plain(), {"per_second": 3.0}, rated(per_second=3.0, burst=3.0, tokens=3.0, refilled_at=NOW)),
        (plain(), {"per_second": 0.5}, rated(per_second=0.5, burst=1.0, tokens=1.0, refilled_at=NOW)),
        (plain(), {"per_second": 3.0, "burst": 7.0}, rated(per_second=3.0, burst=7.0, tokens=7.0, refilled_at=NOW)),
        (rated(), {"per_second": 9.0}, rated(per_second=9.0, burst=9.0, tokens=2.0, refilled_at=NOW)),
        (rated(), {"per_second": 1.0}, rated(per_second=1.0, burst=1.0, tokens=1.0, refilled_at=NOW)),
        (rated(refilled_at=NOW + 9),
         {"per_second": 9.0}, rated(per_second=9.0, burst=9.0, tokens=0.0, refilled_at=NOW + 9)),
    ],
)  # fmt: skip
def test_a_new_bucket_is_full_and_one_that_is_changed_keeps_its_tokens(
    before: Limit, change: dict[str, Any], after: Limit
) -> None:
    assert described(before, PutLimit("key:gpu", **change), NOW) == after
    assert tokens_at(replace(rated(), tokens=1.0), NOW) == 3.0


# ------------------------------------------------------------------------------------------------------------------ books


def books(*limits: Limit) -> Books:
    made = Books(NOW)
    made.open(limits)
    return made


def test_without_limits_a_job_needs_no_permit() -> None:
    assert not books()
    assert books().admit("q", ("key:gpu",)) == ((), None)
    assert books().cap("q") is None


def test_a_job_takes_a_permit_of_each_limit_that_concerns_it() -> None:
    one = books(plain("queue:q", max_used=2), plain("key:gpu", max_used=5, used=1), plain("type:x"), rated("global"))
    assert one
    assert ("key:gpu" in one, "key:other" in one) == (True, False)
    for _ in range(2):
        assert one.admit("q", ("key:gpu", "key:other", "type:x")) == (("key:gpu", "type:x", "global", "queue:q"), None)
    assert one.admit("q", ("key:gpu",)) == (None, None), "its queue may give no more"
    assert (one.has_room("queue:q"), one.has_room("key:gpu"), one.has_room("type:x")) == (False, True, True)
    written = [
        (rated("global", used=2, tokens=0.0, refilled_at=NOW), 2), (plain("key:gpu", max_used=5, used=3), 2),
        (plain("queue:q", max_used=2, used=2), 2), (plain("type:x", used=2), 2),
    ]  # fmt: skip
    assert one.changes() == written
    assert one.changes() == [], "they count as written"


def test_who_finds_no_room_is_parked_on_that_key_and_takes_nothing() -> None:
    one = books(plain("key:a", max_used=1), rated("key:b", refilled_at=NOW))
    assert one.admit("q", ("key:a", "key:b")) == (None, "key:b")
    assert one.changes() == [(rated("key:b", refilled_at=NOW, wake_at=NOW + HALF), 0)]
    assert one.admit("q", ("key:a",)) == (("key:a",), None)
    assert one.admit("q", ("key:a",)) == (None, "key:a")
    assert one.changes() == [(plain("key:a", max_used=1, used=1), 1)]


def test_a_queue_gives_as_many_as_the_narrowest_of_its_caps() -> None:
    one = books(plain("global", max_used=5), plain("key:gpu", max_used=1))
    assert (one.cap("q"), one.cap("r")) == (5, 5)
    one.open([plain("queue:q", max_used=2), plain("queue:r")])
    assert (one.cap("q"), one.cap("r")) == (2, 5)
    assert one.admit("q", ()) == (("global", "queue:q"), None)
    assert (one.cap("q"), one.cap("r")) == (1, 4)


def test_what_is_tried_on_a_copy_is_not_written() -> None:
    one = books(plain("key:gpu", max_used=2))
    one.admit("q", ("key:gpu",))
    other = one.copy()
    assert other.admit("q", ("key:gpu",)) == (("key:gpu",), None)
    assert other.admit("q", ("key:gpu",)) == (None, "key:gpu")
    assert one.has_room("key:gpu")
    assert one.changes() == [(plain("key:gpu", max_used=2, used=1), 1)]


def test_a_limit_with_a_rate_is_told_when_to_look_again() -> None:
    one = books(rated("key:a"), plain("key:b", wake_at=NOW))
    one.let_through("key:a", waiting=True)
    one.let_through("key:b", waiting=True)
    assert one.changes() == [(rated("key:a", wake_at=NOW + HALF), 0)]
