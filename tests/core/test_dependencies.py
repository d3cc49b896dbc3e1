"""Who waits for whom, as far as it can be told without a store."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.changes import Ack, Cancelled, Fail, Release, Settlement
from windlass.core.dependencies import blocked, check_fresh_members, check_links, ends_for_others, linked, released
from windlass.errors import DuplicateJob, InvalidInput
from windlass.types import NewGroup

from .make import FENCE, NOW, new, queued

TOLD: dict[str, Any] = {"handle": "job-1", "token": FENCE, "at": NOW}
LINE = NewGroup(group_id="g", mode="sequential")


@pytest.mark.parametrize("places", [(1, None), (None, None), (1, 1), (2, 3, 2)])
def test_each_member_of_a_sequence_needs_a_place_of_its_own(places: tuple[int | None, ...]) -> None:
    jobs = [new(id=f"j{n}", group_id="g", group_seq=place, opens=LINE) for n, place in enumerate(places)]
    with pytest.raises(InvalidInput, match="needs a place of its own"):
        check_links(jobs)


def test_members_of_a_group_without_order_need_no_place() -> None:
    check_links([new(id=f"j{n}", group_id="g", opens=NewGroup(group_id="g")) for n in range(2)])


def test_a_group_is_described_in_one_way() -> None:
    with pytest.raises(InvalidInput, match="in two ways"):
        check_links([new(id=name, group_id="g", opens=NewGroup(group_id="g", name=name)) for name in ("a", "b")])


@pytest.mark.parametrize(("keys", "told"), [
    ({"idempotency_scope": "s", "idempotency_key": "once"}, "'once'"), ({"dedupe_key": "same"}, "'same'"), ({}, "''"),
])  # fmt: skip
def test_a_group_does_not_count_on_a_job_that_is_not_in_it(keys: dict[str, str], told: str) -> None:
    job = new(group_id="g", opens=NewGroup(group_id="g"), **keys)
    check_fresh_members([job], {"another": "elsewhere"})
    with pytest.raises(DuplicateJob, match=f"holds the key {told} and") as caught:
        check_fresh_members([job], {job.id: "elsewhere"})
    assert caught.value.job_id == "elsewhere"


@pytest.mark.parametrize(("change", "ends"), [
    (Ack(**TOLD), True), (Cancelled(**TOLD), True), (Fail(**TOLD, kind="exhausted", reason="no"), True),
    (Fail(**TOLD, kind="superseded", reason="no", superseded_by="job-2"), False), (Release(**TOLD), False),
])  # fmt: skip
def test_a_dependant_waits_for_the_end_of_the_last_link(change: Settlement, ends: bool) -> None:
    assert ends_for_others(change) is ends


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("waiting_on", [0, 2])
def test_what_waits_for_others_or_for_its_time_is_not_ready(ready: bool, waiting_on: int) -> None:
    for job in (linked(queued(ready=ready), waiting_on, "cancel", NOW), blocked(queued(ready=ready), waiting_on, NOW)):
        assert (job.waiting_on, job.ready) == (waiting_on, ready and waiting_on == 0)


def test_who_is_released_by_the_last_parent_may_have_to_wait_for_something_else() -> None:
    waiting = queued(ready=False, waiting_on=2)
    assert released(waiting, 2, NOW).ready
    assert not released(waiting, 1, NOW).ready
    assert not released(queued(ready=False, waiting_on=2, parked_on="k"), 2, NOW).ready
    assert not released(queued(ready=False, waiting_on=2, run_at=NOW + 1), 2, NOW).ready
    assert released(queued(ready=False, waiting_on=2, run_at=NOW), 2, NOW).ready
