"""Forms do what they say, also where something is mistyped or has become another since the page was loaded."""

from __future__ import annotations

import html

import httpx2
import pytest

from web.conftest import Desk, on_a_desk


async def form_token(client: httpx2.AsyncClient) -> str:
    return (await client.get("/settings")).text.split('name="csrf" value="')[1].split('"')[0]


@on_a_desk
async def test_a_new_schedule_takes_the_place_of_none(desk: Desk, client: httpx2.AsyncClient) -> None:
    """Somebody else has made one of this name, or the name was chosen without looking."""
    await desk.app.templates.put("sum", "add", {"a": 1, "b": 2})
    await desk.app.schedules.put("daily", "sum", "0 9 * * *", params={"b": 7})
    said = {"csrf": await form_token(client), "name": "daily", "template": "sum", "cron": "* * * * *", "tz": "UTC"}
    answer = await client.post("/schedules/save", data=said)
    assert answer.status_code == 422
    assert "there is a schedule 'daily' already" in html.unescape(answer.text).casefold()
    assert 'value="* * * * *"' in answer.text, "what was typed is not lost"
    kept = await desk.app.schedules.get("daily")
    assert (kept.cron_expression, kept.param_overrides) == ("0 9 * * *", b'{"b":7}')
    assert (await client.post("/schedules/save", data={**said, "name": "often"})).status_code == 303


@pytest.mark.parametrize(
    ("typed", "meant"), [("europe/berlin", "Europe/Berlin"), ("Asia/Tokio", "Asia/Tokyo"), ("utc", "UTC")]
)
def test_a_mistyped_zone_is_not_saved_as_another(typed: str, meant: str) -> None:
    @on_a_desk
    async def told(desk: Desk, client: httpx2.AsyncClient) -> None:
        csrf = await form_token(client)
        await client.post("/settings/appearance", data={"csrf": csrf, "zone": "Asia/Tokyo"})
        answer = await client.post("/settings/appearance", data={"csrf": csrf, "zone": typed})
        assert answer.status_code == 422
        assert f"did you mean '{meant}'?" in html.unescape(answer.text)
        assert 'value="Asia/Tokyo"' in (await client.get("/settings")).text, "as it was"
        assert (await client.post("/settings/appearance", data={"csrf": csrf, "zone": f" {meant} "})).status_code == 303

    told()
