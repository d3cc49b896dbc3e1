"""A group as a tree: who stands below whom, what is named, what a page of it says before it acts."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from itertools import pairwise

import httpx2
import msgspec

from web.conftest import Desk, on_a_desk
from web.test_pages import check, form_token
from windlass import Reject, Retry
from windlass.admin.groups import OUTSIDE, EdgeView
from windlass.admin.views import JobView, job_view
from windlass.clock import instant
from windlass.core.rows import enqueued
from windlass.policies import fixed
from windlass.types import NewJob
from windlass.web.pages.trees import DEEPEST, Branch, tree

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def jobs(names: str) -> list[JobView]:
    now = instant(NOW, field="now")
    made = [NewJob(id=name, type=f"t.{name}", queue="q") for name in names]
    return [job_view(enqueued(job, seq=seq, position=seq, now=now), now) for seq, job in enumerate(made)]


def edges(*pairs: str) -> list[EdgeView]:
    """`ab`: b waits for a; `ab+`: it has waited."""
    return [EdgeView(job_id=two[1], parent_id=two[0], rule="cancel", done=two.endswith("+")) for two in pairs]


def drawn(lines: list[Branch]) -> list[str]:
    return [f"{'.' * line.depth}{line.job.id}" for line in lines]


def test_each_stands_below_the_one_that_it_waits_for_longest() -> None:
    found = tree(jobs("abcdef"), (), edges("ac", "bc", "cd", "ad", "ce", "bf"))
    assert drawn(found) == ["a", "b", ".c", "..d", "..e", ".f"]
    assert [(line.number, line.last) for line in found[3:]] == [(4, False), (5, True), (6, True)]
    c, d = found[2], found[3]
    assert [parent.id for parent in c.parents] == ["a", "b"]
    assert (c.rails, d.rails) == ((), (True,)), "the line of c goes on to f while d and e are drawn"
    assert [parent.number for parent in d.parents] == [1, 3]


def test_what_waits_for_all_members_comes_last_and_what_waits_for_some_below_them() -> None:
    found = tree(jobs("ab"), jobs("xyz"), edges("xa", "by", "az", "bz"))
    assert drawn(found) == ["a", "b", ".y", "z"]
    assert [line.after_all for line in found] == [False, False, False, True]
    assert [line.number for line in found] == [1, 2, None, None]
    assert [(parent.id, parent.number, parent.job is not None) for parent in found[0].parents] == [("x", None, True)]


def test_a_parent_that_was_pruned_is_still_named() -> None:
    [line] = tree(jobs("a"), (), edges("ya+"))
    assert [(parent.id, parent.job, parent.done) for parent in line.parents] == [("y", None, True)]
    assert line.waits_for == 0


def test_a_long_sequence_does_not_leave_the_page() -> None:
    names = [chr(97 + n) for n in range(20)]
    found = tree(jobs("".join(names)), (), edges(*(a + b for a, b in pairwise(names))))
    assert [line.job.id for line in found] == names
    assert max(line.depth for line in found) == DEEPEST
    assert max(len(line.rails) for line in found) == DEEPEST - 1


def test_members_that_wait_for_later_ones_are_drawn_in_a_time_by_their_number() -> None:
    names = [chr(0x4E00 + n) for n in range(1_500)]
    members, waits = jobs("".join(names)), edges(*(b + a for a, b in pairwise(names)))
    began = time.thread_time()
    found = tree(members, (), waits)
    assert time.thread_time() - began < 0.8
    assert [line.job.id for line in found] == names[::-1]


def test_a_circle_is_drawn_all_the_same() -> None:
    assert sorted(line.job.id for line in tree(jobs("abc"), (), edges("ab", "ba", "bc"))) == ["a", "b", "c"]


def test_so_many_parents_are_named_and_the_rest_counted() -> None:
    found = tree(jobs("abcdef"), (), edges("af+", "bf", "cf", "df", "ef"))
    last = next(line for line in found if line.job.id == "f")
    assert ([parent.id for parent in last.named], last.unnamed, last.waits_for) == (["a", "b", "c"], 2, 4)


@on_a_desk
async def test_a_group_is_shown_as_a_tree_and_asks_with_its_numbers(desk: Desk, client: httpx2.AsyncClient) -> None:
    @desk.app.task(name="fails", retry=Retry(max_retries=0))
    async def fails() -> None:
        raise Reject("no")

    outside = await desk.add.enqueue(0, 0)
    async with desk.app.group("woven", on_failure="continue") as group:
        one = group.add(desk.add.using(after=[outside]).job(1, 1))
        two = group.add(desk.add.using(after=[one]).job(2, 2))
        bad = group.add(fails.job())
        last = group.finish_with(desk.add.job(3, 3))
    page = (await client.get(f"/groups/{group.id}")).text
    check("group", page)
    assert re.findall(r'<tr id="m-([^"]+)"', page) == [one.id, two.id, bad.id, last.id]
    assert re.findall(r'<div class="ind-(\d)">', page) == ["0", "1", "0", "0"]
    assert "(outside)" in page
    assert ">finaliser<" in page
    assert page.count("waits for 1") == 2
    assert "waits for 3" in page
    assert "3 members that wait are cancelled" in page
    detail = (await client.get(f"/api/groups/{group.id}")).json()
    assert {(edge["parent_id"], edge["job_id"]) for edge in detail["edges"]} == {
        (outside.id, one.id), (one.id, two.id), *((member.id, last.id) for member in (one, two, bad))
    }  # fmt: skip
    assert [job["id"] for job in detail["others"]] == [outside.id, last.id]
    await desk.app.worker().run(drain=True)
    page = (await client.get(f"/groups/{group.id}")).text
    assert "Retry 1 failed" in page
    assert "Partly done" in page
    csrf = await form_token(client)
    asked = (await client.post(f"/groups/{group.id}/retry", data={"csrf": csrf})).text
    assert "Of 3 members, 1 that died start again" in asked


@on_a_desk
async def test_of_very_many_who_wait_outside_the_first_are_shown(desk: Desk, client: httpx2.AsyncClient) -> None:
    """Each of them is read whole, and a page that is watched is read every other second."""
    async with desk.app.group("wanted") as group:
        one = group.add(desk.add.job(1, 1))
    waiting = [await desk.add.using(after=[one]).enqueue(n, n) for n in range(2 * OUTSIDE)]
    detail = (await client.get(f"/api/groups/{group.id}")).json()
    shown = [job["id"] for job in detail["others"]]
    assert shown == [job.id for job in waiting][: len(shown)]
    assert OUTSIDE <= len(shown) < 1.5 * OUTSIDE
    assert [edge["job_id"] for edge in detail["edges"]] == shown, "who was not read is not taken for one that is gone"


@on_a_desk
async def test_the_edges_of_a_chain_lead_to_its_last_link(desk: Desk, client: httpx2.AsyncClient) -> None:
    @desk.app.task(name="flaky", retry_mode="new_job", retry=Retry(max_retries=3, backoff=fixed("0s")))
    async def flaky() -> None:
        raise RuntimeError("once more")

    async with desk.app.group("chained", on_failure="continue") as group:
        one = group.add(flaky.job())
        two = group.add(flaky.using(after=[one], on_failure="continue").job())
    await desk.app.worker().run(drain=True)
    detail = (await client.get(f"/api/groups/{group.id}")).json()
    ids = [job["id"] for job in detail["members"]]
    assert one.id not in ids
    assert two.id not in ids
    assert [(edge["parent_id"], edge["job_id"]) for edge in detail["edges"]] == [(ids[0], ids[1])]
    assert detail["others"] == []


@on_a_desk
async def test_a_time_by_another_clock_is_the_same_instant(desk: Desk, client: httpx2.AsyncClient) -> None:
    """The script of the page ticks by it: the row and the preview of a schedule would differ by hours."""
    await desk.app.templates.put("add", "add", {"a": 1, "b": 2})
    await desk.app.schedules.put("nightly", "add", "30 2 * * *", tz="Asia/Tokyo")
    page = (await client.get("/schedules?edit=nightly")).text
    row, preview = page.index("sch-nightly"), page.index('id="schedule-preview"')
    [first] = re.findall(r'datetime="([^"]+)"', page[row:preview])[:1]
    times = re.findall(r'datetime="([^"]+)"', page[preview:])
    assert first == times[0]
    assert msgspec.json.decode((await client.get("/api/schedules/nightly")).content)["next_trigger_at"][:19] == first[:19]
