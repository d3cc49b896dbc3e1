"""What only the script does: pages that follow the store, keys, charts, dialogs. And signing in."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from web.browser.conftest import Quiet, Served
from windlass.web.access import Access


def test_a_job_changes_before_the_eyes_until_it_is_paused(page: Page, served: Served) -> None:
    ids = served.ids
    page.goto(f"{served.url}/jobs/{ids.ready}")
    expect(page.locator("#job-head .state")).to_have_text("Ready")
    served.api(f"/jobs/{ids.ready}/cancel", "POST", {})
    expect(page.locator("#job-head .state")).to_have_text("Cancelled")
    page.goto(f"{served.url}/jobs/{ids.scheduled}")
    page.keyboard.press("p")
    expect(page.locator("[data-live-toggle]")).to_have_attribute("aria-pressed", "true")
    served.api(f"/jobs/{ids.scheduled}/cancel", "POST", {})
    page.wait_for_timeout(2500)  # longer than a look takes
    assert page.locator("#job-head .state").inner_text() == "Scheduled"
    page.keyboard.press("p")
    expect(page.locator("#job-head .state")).to_have_text("Cancelled")


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 200, "content_type": "text/event-stream", "body": "event: problem\ndata: {}\n\n"},
        {"status": 502, "content_type": "text/html", "body": "<h1>Bad Gateway</h1>"},
    ],
    ids=["store", "proxy"],
)
def test_a_page_is_live_again_when_what_it_shows_is(browser: Browser, served: Served, answer: dict[str, Any]) -> None:
    """Nobody has to load it again; and until then it does not say that it is live."""
    context = browser.new_context()
    page = context.new_page()
    asked: list[str] = []

    def away(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) <= 1:
            route.fulfill(**answer)
        else:
            route.continue_()

    page.route("**/live/jobs/*", away)
    page.goto(f"{served.url}/jobs/{served.ids.scheduled}")
    expect(page.locator(".live")).to_have_text("Not live", use_inner_text=True)
    expect(page.locator("#toast")).to_have_text("Live updates are interrupted")
    served.api(f"/jobs/{served.ids.scheduled}/cancel", "POST", {})
    expect(page.locator("#job-head .state")).to_have_text("Cancelled", timeout=10_000)
    expect(page.locator(".live .away")).to_be_hidden()
    context.close()
    assert len(asked) == 2


def test_rows_change_in_place_and_newer_ones_are_only_counted(page: Page, served: Served) -> None:
    ids = served.ids
    page.goto(f"{served.url}/jobs")
    rows = page.locator("tbody tr").count()
    row = page.locator(f'tr:has(input[value="{ids.ready}"])')
    row.locator("input").check()
    served.api(f"/jobs/{ids.ready}/cancel", "POST", {})
    served.api("/jobs", "POST", {"type": "plain", "payload": {"n": 1}})
    expect(row.locator(".state")).to_have_text("Cancelled")
    expect(row.locator("input")).to_be_checked()
    expect(page.locator("#newer")).to_have_text("1 newer")
    assert page.locator("tbody tr").count() == rows
    page.locator("#newer a").click()
    expect(page.locator("tbody tr")).to_have_count(rows + 1)


def test_a_group_changes_below_the_hand_that_walks_through_it(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/groups/{served.ids.group}")
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator("#group-members tbody tr").nth(1)
    expect(second.locator(".name")).to_be_focused()
    expect(second.locator(".state")).to_have_text("Blocked")
    served.api(f"/groups/{served.ids.group}/cancel", "POST", {})
    expect(page.locator("#group-head .state")).to_have_text("Cancelled")
    expect(second.locator(".state")).to_have_text("Cancelled")
    expect(second.locator(".name")).to_be_focused()
    expect(second).to_have_class("cursor")
    page.keyboard.press("k")
    expect(page.locator("#group-members tbody tr").nth(0).locator(".name")).to_be_focused()


def test_webhooks_and_their_messages_change_before_the_eyes(page: Page, served: Served) -> None:
    hook = served.ids.webhook
    page.goto(f"{served.url}/webhooks/{hook}")
    row = page.locator("#webhook-messages tbody tr").nth(0)
    expect(row.locator(".state")).to_have_text("Failed")
    message = served.api(f"/webhooks/{hook}/deliveries")["deliveries"][0]["id"]
    page.get_by_label("group.finished").uncheck()
    served.api(f"/deliveries/{message}/replay", "POST")
    expect(row.locator(".state")).to_have_text("Waiting")
    expect(row.locator("details")).to_have_attribute("open", "")
    served.api(f"/webhooks/{hook}", "PATCH", {"enabled": False})
    expect(page.locator("#webhook-head .badge")).to_have_text("Off")
    expect(page.get_by_label("group.finished")).not_to_be_checked()  # a form that somebody fills in is left alone
    page.goto(f"{served.url}/webhooks")
    expect(page.locator("#webhook-rows tr").filter(has_text="Off")).to_have_count(2)
    served.api(f"/webhooks/{hook}", "PATCH", {"enabled": True})
    expect(page.locator("#webhook-rows tr").filter(has_text="Off")).to_have_count(1)


def test_keys_lead_everywhere_and_are_listed(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/jobs")
    page.keyboard.press("?")
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#shortcuts")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.get_by_label("Filter jobs")).to_be_focused()
    page.keyboard.type("gq?")
    assert page.url.endswith("/jobs"), "keys are letters inside of a field"
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("x")
    expect(page.locator("tbody tr").nth(0).locator("input")).to_be_checked()
    expect(page.locator(".bulk")).to_be_visible()
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page.locator(".job-head")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    for key, heading in (
        ("q", "Queues"),
        ("s", "Schedules"),
        ("d", "Dead letters"),
        ("w", "Workers"),
        ("g", "Groups"),
        ("o", "Overview"),
    ):
        with page.expect_navigation():
            page.keyboard.press("g")
            page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(heading)


def test_a_dialog_gives_the_focus_back(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/jobs/{served.ids.ready}")
    button = page.get_by_role("button", name="Cancel job")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#confirm")).to_be_visible()
    page.keyboard.press("Escape")
    expect(button).to_be_focused()


def test_the_first_stop_of_the_keyboard_leads_to_the_content(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()


def test_a_chart_is_read_with_the_arrow_keys(page: Page, served: Served) -> None:
    page.goto(f"{served.url}/")
    chart = page.locator("#throughput-figure")
    chart.focus()
    last = chart.locator(".tip strong").inner_text()
    page.keyboard.press("ArrowLeft")
    assert chart.locator(".tip strong").inner_text() != last
    page.keyboard.press("End")
    assert chart.locator(".tip strong").inner_text() == last


def test_the_drawer_of_a_phone_opens_and_closes(browser: Browser, served: Served) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{served.url}/")
    expect(page.locator("#side")).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(page.locator("#side")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#side")).to_be_hidden()
    context.close()


def test_people_sign_in_with_a_token_with_script_or_without(browser: Browser) -> None:
    with Served(Access()) as served:
        for script in (True, False):
            context = browser.new_context(java_script_enabled=script)
            page = context.new_page()
            quiet = Quiet(page)
            page.goto(f"{served.url}/jobs?state=dead")
            page.get_by_label("Token").fill("wrong")
            with page.expect_navigation():
                page.get_by_role("button", name="Sign in").click()
            expect(page.get_by_role("alert")).to_contain_text("not valid")
            quiet.heard.clear()  # the browser notes an answer of 403
            page.get_by_label("Token").fill(served.token)
            with page.expect_navigation():
                page.get_by_role("button", name="Sign in").click()
            assert page.url.endswith("/jobs?state=dead")
            with page.expect_navigation():
                page.get_by_role("button", name="Sign out").click()
            page.goto(f"{served.url}/jobs")
            assert "/sign-in" in page.url
            context.close()
            assert quiet.heard == []


def test_what_a_question_is_about_does_not_change_below_it(page: Page, served: Served) -> None:
    """Keys of the page are not meant while it asks: the jobs behind the question are those that it counts."""
    page.goto(f"{served.url}/jobs")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.locator(".bulk").get_by_role("button", name="Cancel").click()
    expect(page.locator("#confirm")).to_be_visible()
    for key in ("j", "x", "g", "q", "t"):
        page.keyboard.press(key)
    expect(page.locator("tbody .check:checked")).to_have_count(1)
    expect(page.locator("#confirm")).to_be_visible()
    assert page.url.endswith("/jobs")
    assert page.locator("html").get_attribute("data-theme") is None
    page.keyboard.press("Escape")
    expect(page.locator("#confirm")).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("tbody .check:checked")).to_have_count(2)


def test_an_answer_counts_though_the_page_has_changed_below_its_question(page: Page, served: Served) -> None:
    """A fragment with the form in it may come at any moment."""
    ids = served.ids
    page.goto(f"{served.url}/jobs/{ids.scheduled}")
    page.get_by_role("button", name="Cancel job").click()
    expect(page.locator("#confirm")).to_be_visible()
    served.api(f"/jobs/{ids.scheduled}/run-now", "POST", {})
    expect(page.locator("#job-facts")).not_to_contain_text("Next run")  # the last that is sent of this change
    with page.expect_navigation():
        page.locator("#confirm [data-ok]").click()
    assert served.state(ids.scheduled) == "cancelled"
    page.goto(f"{served.url}/jobs/{ids.ready}")
    page.get_by_role("button", name="Cancel job").click()
    served.api(f"/jobs/{ids.ready}/cancel", "POST", {})
    expect(page.locator("#job-facts")).to_contain_text("Ended")
    page.keyboard.press("Escape")
    expect(page.locator("#job-head .state")).to_have_text("Cancelled")
