"""Every action of every screen, as a person does it: with script, where a dialog asks, and without, where a page does."""

from __future__ import annotations

from urllib.parse import quote

from playwright.sync_api import expect

from web.browser.conftest import Hand
from web.staged import EVIL

AT = quote(EVIL, safe="")


def test_a_job_is_cancelled_or_kept_as_it_is(hand: Hand) -> None:
    ids, page = hand.served.ids, hand.page
    hand.go(f"/jobs/{ids.ready}")
    hand.press(page.get_by_role("button", name="Cancel job"), sure=False)
    assert hand.served.state(ids.ready) == "queued"
    hand.go(f"/jobs/{ids.ready}")
    hand.press(page.get_by_role("button", name="Cancel job"))
    assert hand.told() == "Cancelled"
    expect(page.locator(".job-head .state")).to_have_text("Cancelled")


def test_a_job_is_retried_and_run_now(hand: Hand) -> None:
    ids, page = hand.served.ids, hand.page
    hand.go(f"/jobs/{ids.dead}")
    hand.press(page.get_by_role("button", name="Retry"))
    assert hand.told() == "Queued again"
    assert hand.served.state(ids.dead) == "queued"
    hand.go(f"/jobs/{ids.scheduled}")
    hand.press(page.get_by_role("button", name="Run now"))
    assert hand.told() == "Due now"
    expect(page.locator(".job-head .state")).to_have_text("Ready")


def test_a_job_is_moved_reprioritised_and_deleted(hand: Hand) -> None:
    ids, page = hand.served.ids, hand.page
    hand.go(f"/jobs/{ids.ready}")
    hand.press(page.get_by_role("button", name="Move to bottom"))
    assert hand.told() == "Moved"
    hand.press(page.get_by_role("button", name="Move to top"))
    page.locator("details.menu > summary").click()
    page.get_by_label("Priority").fill("7")
    hand.press(page.get_by_role("button", name="Set"))
    assert hand.served.api(f"/jobs/{ids.ready}")["job"]["priority"] == 7
    hand.go(f"/jobs/{ids.cancelled}")
    hand.press(page.get_by_role("button", name="Delete"))
    assert hand.told() == "Deleted"
    expect(page.locator("h1")).to_have_text("Jobs")


def test_a_selection_of_jobs_is_changed(hand: Hand) -> None:
    ids, page = hand.served.ids, hand.page
    hand.go("/jobs")
    for one in (ids.ready, ids.scheduled):
        page.locator(f'input[value="{one}"]').check()
    if hand.script:
        expect(page.locator("[data-selected]")).to_have_text("2")
    hand.press(page.locator(".bulk").get_by_role("button", name="Cancel"))
    assert "2 jobs" in hand.told()
    assert {hand.served.state(one) for one in (ids.ready, ids.scheduled)} == {"cancelled"}


def test_all_that_match_are_changed_after_the_store_has_counted_them(hand: Hand) -> None:
    ids, page = hand.served.ids, hand.page
    hand.go("/jobs?state=dead")
    page.locator(f'input[value="{ids.dead}"]').check()
    page.locator("[data-every]").check()
    with page.expect_navigation():
        page.locator(".bulk").get_by_role("button", name="Retry").click()
    expect(page.locator(".ask h2")).to_have_text("Retry 1 job?")
    with page.expect_navigation():
        page.locator(".ask .sheet-foot button").click()
    assert hand.served.state(ids.dead) == "queued"


def test_filters_are_typed_and_taken_away(hand: Hand) -> None:
    page = hand.go("/jobs")
    page.get_by_label("Filter jobs").fill(f"queue:{EVIL}")
    with page.expect_navigation():
        page.get_by_label("Filter jobs").press("Enter")
    assert page.locator(".chip").count() == 1
    with page.expect_navigation():
        page.locator("#job-tabs").get_by_role("link", name="Dead").click()
    with page.expect_navigation():
        page.locator("#job-tabs").get_by_role("link", name="Scheduled").click()
    assert page.locator("tbody tr").count() == 2
    with page.expect_navigation():
        page.locator(".chip a").click()
    assert page.locator(".chip").count() == 0


def test_dead_letters_are_replayed_and_purged(hand: Hand) -> None:
    ids, page = hand.served.ids, hand.page
    hand.go("/dead-letters")
    hand.press(page.get_by_role("button", name="Replay 1…"))
    assert hand.told() == "1 job queued again"
    assert hand.served.state(ids.dead) == "queued"
    expect(page.locator(".none-title")).to_have_text("No dead letters")


def test_all_dead_letters_are_replayed_after_the_store_has_counted_them(hand: Hand) -> None:
    ids, page = hand.served.ids, hand.page
    for path in ("/dead-letters?by=list", "/dead-letters"):
        hand.go(path)
        hand.press(page.get_by_role("button", name="Replay all"))
        expect(page.locator(".ask h2")).to_have_text("Replay 1 job?")
    with page.expect_navigation():
        page.locator(".ask .sheet-foot button").click()
    assert hand.told() == "1 job queued again"
    assert hand.served.state(ids.dead) == "queued"


def test_dead_letters_are_purged_by_ticking_them(hand: Hand) -> None:
    ids, page = hand.served.ids, hand.page
    hand.go("/dead-letters")
    page.locator(f'input[value="{ids.dead}"]').check()
    hand.press(page.locator(".bulk").get_by_role("button", name="Purge"))
    assert hand.told() == "1 job purged"


def test_a_queue_is_paused_resumed_limited_and_put_in_order(hand: Hand) -> None:
    ids, page = hand.served.ids, hand.page
    hand.go(f"/queues/{AT}")
    hand.press(page.locator("#queue-head").get_by_role("button", name="Pause"))
    assert hand.told() == "Paused"
    hand.press(page.locator("#queue-head").get_by_role("button", name="Resume"))
    assert hand.told() == "Resumed"
    first = page.locator(".order li .name").nth(0).get_attribute("href")
    hand.press(page.locator(".order li").nth(0).get_by_role("button", name="down"))
    assert page.locator(".order li .name").nth(1).get_attribute("href") == first
    hand.press(page.locator(".order li").nth(1).get_by_role("button", name="up"))
    assert page.locator(".order li .name").nth(0).get_attribute("href") == first
    page.get_by_label("Running at once").fill("3")
    page.get_by_label("Starts per time").fill("10/s")
    hand.press(page.get_by_role("button", name="Save limits"))
    limits = {one["key"]: one for one in hand.served.api("/limits")["limits"]}
    assert (limits[f"queue:{EVIL}"]["most"], limits[f"queue:{EVIL}"]["per_second"]) == (3, 10.0)
    page.get_by_label("Running at once").fill("")
    page.get_by_label("Starts per time").fill("")
    hand.press(page.get_by_role("button", name="Save limits"))
    assert f"queue:{EVIL}" not in {one["key"] for one in hand.served.api("/limits")["limits"]}
    assert ids.ready in page.content()


def test_limits_are_set_paused_and_removed(hand: Hand) -> None:
    page = hand.go("/queues")
    page.get_by_label("New limit for").fill("type:plain")
    page.get_by_label("Running at once").fill("2")
    hand.press(page.get_by_role("button", name="Set limit"))
    hand.press(page.get_by_role("button", name="Pause type:plain"))
    hand.press(page.get_by_role("button", name="Resume type:plain"))
    hand.press(page.get_by_role("button", name="Remove type:plain"))
    assert hand.told() == "Deleted"
    assert "type:plain" not in {one["key"] for one in hand.served.api("/limits")["limits"]}


def test_a_schedule_is_run_paused_resumed_edited_and_deleted(hand: Hand) -> None:
    page = hand.go("/schedules?edit=plain")
    row = page.locator("#sch-plain")
    hand.press(row.get_by_role("button", name="Run now"))
    assert hand.told() == "One extra job was made"
    hand.press(row.get_by_role("button", name="Pause plain"))
    expect(row).to_contain_text("paused")
    hand.press(row.get_by_role("button", name="Resume plain"))
    hand.go("/schedules?edit=plain")
    page.get_by_label("When").fill("0 7 * * *")
    if hand.script:
        expect(page.locator("#schedule-preview")).to_contain_text("At 07:00 every day")
    else:
        hand.press(page.get_by_role("button", name="Preview"))
        assert "At 07:00 every day" in page.locator("#schedule-preview").inner_text()
    hand.press(page.get_by_role("button", name="Save schedule"))
    assert hand.told() == "Saved"
    hand.press(page.get_by_role("button", name="Delete"))
    assert [one["name"] for one in hand.served.api("/schedules")["schedules"]] == [EVIL]


def test_a_schedule_is_made(hand: Hand) -> None:
    page = hand.go("/schedules")
    with page.expect_navigation():
        page.get_by_role("link", name="New schedule").click()
    page.get_by_label("Name", exact=True).fill("hourly")
    page.get_by_label("Template", exact=True).select_option("plain")
    page.get_by_label("When").fill("15 * * * *")
    hand.press(page.get_by_role("button", name="Save schedule"))
    assert "hourly" in [one["name"] for one in hand.served.api("/schedules")["schedules"]]


def test_a_group_is_cancelled_and_retried(hand: Hand) -> None:
    page = hand.go(f"/groups/{hand.served.ids.group}")
    assert page.locator("#group-members .name").all_inner_texts() == ["plain", EVIL]
    assert page.locator("#group-members .twigs").count() == 1, "the second waits for the first"
    expect(page.locator("#group-members tbody tr").nth(1)).to_contain_text("waits for 1")
    hand.press(page.get_by_role("button", name="Cancel group"))
    expect(page.locator("#group-head .state")).to_have_text("Cancelled")
    hand.press(page.get_by_role("button", name="Retry 2 cancelled"))
    assert hand.told() == "2 jobs queued again"


def test_a_template_is_made_archived_and_deleted(hand: Hand) -> None:
    page = hand.go("/templates")
    page.get_by_label("Name").fill("mine")
    page.get_by_label("Task").fill("plain")
    page.get_by_label("Arguments, as JSON").fill('{"n": 3}')
    hand.press(page.get_by_role("button", name="Save template"))
    assert hand.told() == "Saved"
    hand.press(page.get_by_role("button", name="Archive"))
    assert hand.told() == "Archived"
    hand.press(page.get_by_role("button", name="Delete"))
    assert "mine" not in page.locator("main").inner_text()


def test_a_queue_is_held_renewed_and_released(hand: Hand) -> None:
    page = hand.go("/holds")
    page.get_by_label("Queue", exact=True).fill("plain")
    hand.press(page.get_by_role("button", name="Hold queue"))
    assert hand.told() == "Held"
    card = page.get_by_role("region", name="Hold of plain")
    hand.press(card.get_by_role("button", name="Renew"))
    assert hand.told() == "Renewed"
    hand.press(card.get_by_role("button", name="Release"))
    assert hand.told() == "Released"


def test_a_token_is_made_shown_once_and_revoked(hand: Hand) -> None:
    page = hand.go("/tokens")
    page.get_by_label("Name").fill("deploy")
    page.get_by_label("enqueue store new jobs").check()
    hand.press(page.get_by_role("button", name="Create token"))
    secret = page.locator("#secret span").inner_text()
    assert len(secret) > 40
    hand.go("/tokens")
    assert secret not in page.content()
    row = page.get_by_role("row").filter(has_text="deploy")
    hand.press(row.get_by_role("button", name="Revoke"))
    assert hand.told() == "Revoked"


def test_a_job_is_enqueued_by_hand(hand: Hand) -> None:
    page = hand.go("/jobs/new")
    page.get_by_label("Task").fill("plain")
    page.get_by_label("Arguments by name, as JSON").fill("nonsense")
    hand.press(page.get_by_role("button", name="Enqueue job"))
    expect(page.get_by_role("alert")).to_contain_text("not JSON")
    page.get_by_label("Arguments by name, as JSON").fill('{"n": 3}')
    hand.press(page.get_by_role("button", name="Enqueue job"))
    assert hand.told() == "Enqueued"
    expect(page.locator(".job-head h2")).to_have_text("plain")


def test_appearance_is_saved(hand: Hand) -> None:
    page = hand.go("/settings")
    page.get_by_label("Theme", exact=True).select_option("dark")
    page.get_by_label("Time zone").fill("Asia/Tokyo")
    hand.press(page.get_by_role("button", name="Save appearance"))
    assert page.locator("html").get_attribute("data-theme") == "dark"
    hand.go(f"/jobs/{hand.served.ids.done}")
    expect(page.locator("#job-facts")).to_contain_text("Asia/Tokyo")
