"""What is refused of questions, before a store is asked."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from windlass.core.admission_of_queries import check_ids, check_query
from windlass.core.fields import BATCH_LIMIT, LARGEST
from windlass.core.listing import FIRST_SAID, LAST_SAID, GlimpseJobs, ListJobs, Place, TallyJobs, Wish, check_search
from windlass.core.queries import (
    AllTemplates,
    AllWorkers,
    AuditLog,
    AuditPage,
    DeliveriesOf,
    DeliveryOf,
    DependantsOf,
    DueDeliveries,
    DueSchedules,
    EdgesOf,
    EndedJobs,
    GroupMembers,
    GroupsById,
    InOrder,
    JobsAhead,
    LeasedUnder,
    LimitUses,
    MembersOf,
    NextRefill,
    Query,
    SamplesAt,
    SamplesSince,
    SeenLately,
    TokenByDigest,
    UsageBy,
    UsageSince,
)
from windlass.drivers.values import JobQuery
from windlass.errors import InvalidInput

AHEAD = JobsAhead(job_id="a")
PAGE = AuditPage()
USED = UsageBy(since=0, until=0)
HELD = LeasedUnder(token="t", worker_id="w", queues=("q",), now=0, limit=1)
SENT = DeliveriesOf(webhook_id="h")
LISTED = ListJobs(wish=Wish(now=0))


@pytest.mark.parametrize(
    "query",
    [
        AllWorkers(), AHEAD, replace(AHEAD, most=0), replace(AHEAD, job_id="x" * 5_000), PAGE,
        replace(PAGE, limit=BATCH_LIMIT, before=LARGEST, after=LARGEST, since=FIRST_SAID, actor="", org_id=""),
        USED, replace(USED, since=FIRST_SAID, until=LAST_SAID, queues=(), type="t"), HELD, SENT,
        replace(SENT, status="failed"),
        AllTemplates(), AllTemplates(name="t"), GroupsById(ids=()), TokenByDigest(digest=b""), SamplesAt(minutes=(0,)),
        LISTED, replace(LISTED, after=Place(1, 1)), replace(LISTED, budget=LARGEST), replace(LISTED, budget=1),
    ],
)  # fmt: skip
def test_a_sound_question_is_let_in(query: Query[Any]) -> None:
    check_query(query)


@pytest.mark.parametrize(
    ("sound", "field"),
    [
        (SamplesSince(), "since"), (UsageSince(), "since"), (AuditLog(), "since"), (PAGE, "since"), (USED, "since"),
        (USED, "until"), (DueSchedules(by=0), "by"), (DueDeliveries(webhooks=(), by=0), "by"),
        (NextRefill(queues=("q",), now=0), "now"), (HELD, "now"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("bad", [FIRST_SAID - 1, LAST_SAID + 1, 2**14_000, 1.5, True, "now", None, []], ids=count())
def test_a_moment_is_one_that_a_datetime_can_say(sound: Query[Any], field: str, bad: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        check_query(replace(sound, **{field: bad}))


@pytest.mark.parametrize(
    ("sound", "field"),
    [
        (AHEAD, "most"), (EndedJobs(state="dead"), "most"), (SeenLately(), "jobs"), (PAGE, "before"), (PAGE, "after"),
        (SENT, "before"), (USED, "step"), (DeliveryOf(event_id=1, webhook_id="h"), "event_id"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("bad", [-1, LARGEST + 1, 2**14_000, 1.5, True, "1", []], ids=count())
def test_a_number_is_a_whole_one_that_a_store_can_hold(sound: Query[Any], field: str, bad: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        check_query(replace(sound, **{field: bad}))


@pytest.mark.parametrize(
    ("sound", "bad", "field"),
    [
        *((sound, {"job_id": bad}, "job_id") for sound in (AHEAD, DependantsOf(job_id="a")) for bad in (5, None, "\ud800")),
        *((GroupMembers(group_id="g"), {"group_id": bad}, "group_id") for bad in (5, None, "\x00")),
        *((PAGE, {field: bad}, field) for field in ("actor", "action", "subject", "org_id") for bad in (5, "\ud800")),
        (HELD, {"token": 5}, "token"), (HELD, {"worker_id": None}, "worker_id"), (HELD, {"queues": "q"}, "queues"),
        (SENT, {"webhook_id": 5}, "webhook_id"), (SENT, {"status": "bored"}, "status"), (SENT, {"status": []}, "status"),
        (EndedJobs(state="dead"), {"state": "bored"}, "state"), (EndedJobs(state="dead"), {"state": None}, "state"),
        (AllTemplates(), {"name": 5}, "name"), (InOrder(queue="q"), {"queue": 5}, "queue"),
        (TokenByDigest(digest=b""), {"digest": "x"}, "digest"),
        *((GroupsById(ids=()), {"ids": bad}, "ids") for bad in (5, None, "ab", (5,), ("\ud800",))),
        (MembersOf(ids=()), {"ids": None}, "ids"),
        (LimitUses(keys=()), {"keys": (5,)}, "keys"), (LimitUses(keys=()), {"limit": 0}, "limit"),
        (DueDeliveries(webhooks=(), by=0), {"webhooks": 5}, "webhooks"),
        (DueDeliveries(webhooks=(), by=0), {"each": BATCH_LIMIT + 1}, "each"),
        (EdgesOf(group_id="g"), {"members": 0}, "members"), (PAGE, {"limit": None}, "limit"),
        *((SamplesAt(minutes=()), {"minutes": bad}, "minutes") for bad in (5, "0", (None,), (2**14_000,))),
        *((USED, {field: 1}, field) for field in ("by_org", "by_queue", "by_type", "by_outcome")),
        (USED, {"type": 5}, "type"), (USED, {"queues": 5}, "queues"),
    ],
    ids=count(),
)  # fmt: skip
def test_a_bad_question_is_refused_by_the_name_of_its_field(sound: Query[Any], bad: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        check_query(replace(sound, **bad))


@pytest.mark.parametrize("bad", [5, None, "dead", (5,), ("bored",), ("dead", None)], ids=count())
def test_jobs_are_asked_for_by_states_that_there_are(bad: Any) -> None:
    check_query(JobQuery(states=("dead", "queued")))
    with pytest.raises(InvalidInput, match=r"^states: "):
        check_query(JobQuery(states=bad))


@pytest.mark.parametrize("bad", [5, None, "\ud800", "a\x00"])
def test_a_job_is_asked_for_by_text(bad: object) -> None:
    check_ids(["a", "x" * 5_000, "grüße"])
    with pytest.raises(InvalidInput, match=r"^id: "):
        check_ids(["a", bad])


@pytest.mark.parametrize(
    "after",
    [
        5, (1, 1), Place(1, -1), Place(1, 2**63), Place(1, 1.5), Place(2**61, 1),  # type: ignore[arg-type]
        Place(-(2**61), 1), Place("x", 1), Place(1.5, 1),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_a_listing_goes_on_at_a_place_that_there_can_be(after: Any) -> None:
    for sound in (LISTED, GlimpseJobs(wish=Wish(now=0))):
        check_search(replace(sound, after=Place(1 - 2**61, 0)))
        check_search(replace(sound, after=Place(None, LARGEST)))
        with pytest.raises(InvalidInput, match=r"^after: "):
            check_search(replace(sound, after=after))


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        *(({field: bad}, field) for field in ("ids", "kinds", "queues", "types") for bad in (5, "q", None)),
        *(({"fingerprint": bad}, "fingerprint") for bad in (5, "x", b"01234567", ["a"])),
        *(({"quiet_since": bad}, "quiet_since") for bad in (2**14_000, "1h")),
    ],
    ids=count(),
)
def test_a_bad_wish_is_refused_by_the_name_of_its_field(bad: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        check_search(TallyJobs(wish=Wish(now=0, **bad)))


@pytest.mark.parametrize("budget", [0, LARGEST + 1, 1.5, None])
def test_a_search_has_an_end(budget: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^budget: "):
        check_search(TallyJobs(wish=Wish(now=0), budget=budget))
