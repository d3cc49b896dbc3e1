"""Which jobs are like a wish, the way on which they are found, and what is no wish."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.failures import fingerprint
from windlass.core.fields import BATCH_LIMIT
from windlass.core.listing import (
    FIRST_SAID,
    LAST_SAID,
    TEXT_LIMIT,
    GlimpseJobs,
    Kind,
    ListJobs,
    Path,
    Place,
    TallyJobs,
    Wish,
    check_search,
    is_past,
    is_wished,
    order_of,
    path_of,
    place_of,
    states_of,
)
from windlass.errors import InvalidInput
from windlass.types import TERMINAL, Job, Label

from .make import NOW, queued


def wish(*labels: Label, **fields: Any) -> Wish:
    return Wish(now=NOW, kinds=tuple(map(Kind, labels)), **fields)


# ---------------------------------------------------------------------------------------------------------------- the way


@pytest.mark.parametrize(
    ("wanted", "path"),
    [
        (wish(), "all"), (wish(ids=("a",), group_id="g"), "ids"), (wish(group_id="g", schedule_id="s"), "group"),
        (wish("dead", schedule_id="s"), "schedule"), (wish("dead"), "ended"),
        (wish("dead", "succeeded", "cancelled"), "ended"),
        (wish("queued", "dead"), "all"), (wish("parked", "claimed"), "living"), (wish("scheduled"), "living"),
        (wish(finished_from=1), "ended"), (wish(finished_until=1), "ended"), (wish("queued", finished_from=1), "ids"),
        (wish("queued", "dead", finished_until=1), "ended"),
    ],
)  # fmt: skip
def test_the_way_depends_on_the_wish_alone(wanted: Wish, path: Path) -> None:
    assert path_of(wanted) == path


def test_what_has_an_end_has_ended() -> None:
    assert states_of(wish("queued", "dead")) == {"queued", "dead"}
    assert states_of(wish("queued", "dead", finished_from=1)) == {"dead"}
    assert states_of(wish(finished_until=1)) == TERMINAL
    assert states_of(wish()) == set()


def test_along_the_ends_a_place_is_a_time_and_else_a_number() -> None:
    job = queued(finished_at=7, seq=3)
    assert (place_of(job, "ended"), place_of(job, "all")) == (Place(7, 3), Place(None, 3))
    assert (order_of(Place(7, 3)), order_of(Place(None, 3))) == ((7, 3), (0, 3))


@pytest.mark.parametrize(
    ("first", "fields", "earliest", "latest", "past"),
    [
        ("newest", {"created_from": 10}, 5, 9, True), ("newest", {"created_from": 10}, 5, 10, False),
        ("newest", {"created_until": 1}, 5, 9, False), ("oldest", {"created_until": 10}, 10, 12, True),
        ("oldest", {"created_until": 10}, 9, 12, False), ("oldest", {"created_from": 99}, 9, 12, False),
        ("oldest", {}, 9, 12, False), ("newest", {}, 9, 12, False),
    ],
)  # fmt: skip
def test_a_walk_ends_where_no_later_job_can_be_wanted(
    first: Any, fields: dict[str, int], earliest: int, latest: int, past: bool
) -> None:
    assert is_past(wish(**fields), first, earliest, latest) is past


# --------------------------------------------------------------------------------------------------------------- the wish

JOB = queued(
    id="j", queue="q", type="mail", org_id="o", tags=("t",), group_id="g", schedule_id="s", worker_id="w", state="dead",
    dead_kind="lost", dead_reason="lost 7 times", created_at=10, finished_at=20, failed_at=15,
)  # fmt: skip
LIVING = queued(created_at=10)


@pytest.mark.parametrize(
    ("job", "yes", "no"),
    [
        (JOB, {"ids": ("i", "j")}, {"ids": ("i",)}), (JOB, {"queues": ("q", "r")}, {"queues": ("r",)}),
        (JOB, {"types": ("mail",)}, {"types": ("x", "y")}), (JOB, {"org_id": "o"}, {"org_id": "p"}),
        (JOB, {"tag": "t"}, {"tag": "u"}), (JOB, {"group_id": "g"}, {"group_id": "h"}),
        (JOB, {"schedule_id": "s"}, {"schedule_id": "r"}), (JOB, {"worker_id": "w"}, {"worker_id": "v"}),
        (JOB, {"created_from": 10}, {"created_from": 11}), (JOB, {"created_until": 11}, {"created_until": 10}),
        (JOB, {"finished_from": 20}, {"finished_from": 21}), (JOB, {"finished_until": 21}, {"finished_until": 20}),
        (JOB, {"failed_from": 15}, {"failed_from": 16}), (JOB, {"quiet_since": 20}, {"quiet_since": 19}),
        (LIVING, {"quiet_since": 10}, {"quiet_since": 9}),
        (LIVING, {"created_from": 9, "created_until": 11}, {"finished_from": 1}),
        (LIVING, {}, {"finished_until": 1}), (LIVING, {}, {"failed_from": 1}),
        (JOB, {"error": "7 times"}, {"error": "8 times"}),
        (JOB, {"error": fingerprint("lost 8 times")}, {"error": "0" * 8}),
        (JOB, {"fingerprint": fingerprint("lost 8 times")}, {"fingerprint": fingerprint("x")}),
        (JOB, {"kinds": (Kind("dead"), Kind("queued"))}, {"kinds": (Kind("queued"),)}),
        (JOB, {"kinds": (Kind("dead", dead_kind="lost"),)}, {"kinds": (Kind("dead", dead_kind="exhausted"),)}),
        (queued(dead_kind="superseded"), {"superseded": True}, {}),
        (queued(state="cancelled", last_outcome="cancelled"), {"kinds": (Kind("cancelled", ran=True),)},
         {"kinds": (Kind("cancelled", ran=False),)}),
        (queued(state="cancelled"), {"kinds": (Kind("cancelled", ran=False),)}, {"kinds": (Kind("cancelled", ran=True),)}),
    ],
)  # fmt: skip
def test_a_job_is_wished_when_everything_that_is_said_fits(job: Job, yes: dict[str, Any], no: dict[str, Any]) -> None:
    assert is_wished(job, Wish(now=NOW, **yes))
    assert not is_wished(job, Wish(now=NOW, **no))


# -------------------------------------------------------------------------------------------------------------- admission


@pytest.mark.parametrize(
    "fields",
    [
        {}, {"ids": ("j",) * BATCH_LIMIT}, {"kinds": (Kind("parked"),)}, {"queues": ("q",)}, {"error": "e" * TEXT_LIMIT},
        {"error": "ü\ud7ff\ue000"}, {"fingerprint": "0123abcd"}, {"now": FIRST_SAID}, {"quiet_since": LAST_SAID},
        {"tag": "t"},
    ],
)  # fmt: skip
def test_what_may_be_wished(fields: dict[str, Any]) -> None:
    wanted = Wish(**{"now": NOW, **fields})
    for query in (
        ListJobs(wish=wanted, budget=1, limit=1),
        GlimpseJobs(wish=wanted, first="oldest"),
        TallyJobs(wish=wanted),
    ):
        check_search(query)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("ids", ("j",) * (BATCH_LIMIT + 1), "ids"), ("ids", ("",), "id"), ("kinds", (Kind("ready"),), "label"),  # type: ignore[arg-type]
        ("queues", ("",), "queue"), ("types", ("",), "type"),
        *((name, "", name) for name in ("org_id", "tag", "group_id", "schedule_id", "worker_id", "error")),
        *((name, at, name) for name in ("now", "created_from", "finished_until", "quiet_since")
          for at in (FIRST_SAID - 1, LAST_SAID + 1, True, "1")),
        ("error", 5, "error"), ("error", "e" * (TEXT_LIMIT + 1), "error"), ("error", "a\0", "error"),
        ("error", "\ud800", "error"),
        ("error", "a\udfff", "error"), ("fingerprint", "0123", "fingerprint"), ("fingerprint", "", "fingerprint"),
    ],
)  # fmt: skip
def test_what_is_no_wish_is_refused_by_name(field: str, value: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_search(TallyJobs(wish=Wish(**{"now": NOW, field: value})))
    assert refused.value.field == said


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"budget": 0}, "budget"), ({"budget": True}, "budget"), ({"budget": "9"}, "budget"), ({"limit": 0}, "limit"),
        ({"first": "best"}, "first"),
    ],
)  # fmt: skip
def test_a_search_that_looks_at_nothing_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_search(ListJobs(wish=wish(), **fields))
    assert refused.value.field == said
