"""Every screen in a real browser: no error, no refused resource, readable, named, and nothing runs off a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from web.browser.conftest import Quiet, Served
from web.staged import paths

LOOKING = (Path(__file__).parent / "looking.js").read_text()
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1600, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True},
    "narrow": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True},
    "small": {"color_scheme": "dark", "viewport": {"width": 320, "height": 640}},
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_screen_is_quiet_readable_and_within_its_width(browser: Browser, served: Served, look: str) -> None:
    context = browser.new_context(**LOOKS[look])
    page = context.new_page()
    quiet = Quiet(page)
    found = {}
    for path in paths(served.ids):
        answer = page.goto(served.url + path)
        assert answer is not None
        assert answer.status == 200, path
        if trouble := page.evaluate(LOOKING):
            found[path] = trouble
        assert quiet.heard == [], path
    context.close()
    assert found == {}


def test_no_table_is_wider_than_a_phone(browser: Browser, served: Served) -> None:
    """What is cut off on the right of a card, nobody looks for."""
    context = browser.new_context(**LOOKS["narrow"])
    page = context.new_page()
    wide = "[...document.querySelectorAll('.card:has(> .tbl)')].filter(it => it.scrollWidth > it.clientWidth).length"
    found = {path for path in paths(served.ids) if page.goto(served.url + path) and page.evaluate(wide)}
    context.close()
    assert found == set()


def test_an_id_that_is_cut_tells_all_of_itself(browser: Browser, served: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.url + "/jobs")
    seen = {one.inner_text(): one.get_attribute("title") for one in page.locator("tbody code span[title]").all()}
    assert len(seen) == page.locator("tbody tr").count(), "two jobs look the same"
    for short, whole in seen.items():
        head, _, tail = short.partition("…")
        assert whole is not None
        assert whole.startswith(head)
        assert whole.endswith(tail)
    context.close()


def test_pages_work_below_a_base_path(browser: Browser) -> None:
    from windlass.web.access import LOCAL, Access

    with Served(Access(anonymous=LOCAL), base="/ops") as served:
        context = browser.new_context()
        page = context.new_page()
        quiet = Quiet(page)
        page.goto(served.url + "/")
        links = "Jobs,Dead letters,Groups,Schedules,Templates,Queues,Workers,Holds,Webhooks,Settings"
        for link in links.split(","):
            page.locator("#nav").get_by_role("link", name=link).click()
            assert page.url.startswith(served.url)
            assert page.locator("h1").inner_text() == link
        context.close()
        assert quiet.heard == []
