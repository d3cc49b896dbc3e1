"""Forms do what they say, also where something is mistyped or has become another since the page was loaded."""

from __future__ import annotations

import html
import re

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


def fields(page: str) -> dict[str, str]:
    """What a browser sends back of the form of a schedule that nobody touched."""
    form = page.split('action="/schedules/save"')[1].split("</form>")[0]
    named = {**dict(re.findall(r'<input[^>]* name="([^"]+)"[^>]* value="([^"]*)"', form))}
    for name, inner in re.findall(r'<select[^>]* name="([^"]+)"[^>]*>(.*?)</select>', form, re.DOTALL):
        named[name] = re.findall(r'value="([^"]*)" selected', inner)[0]
    named["params"] = re.findall(r'name="params"[^>]*>(.*?)</textarea>', form, re.DOTALL)[0]
    return {name: html.unescape(value) for name, value in named.items()}


@on_a_desk
async def test_two_who_edit_a_schedule_are_told_of_each_other(desk: Desk, client: httpx2.AsyncClient) -> None:
    await desk.app.templates.put("sum", "add", {"a": 1, "b": 2})
    await desk.app.schedules.put("daily", "sum", "0 9 * * *", params={"b": 7})
    mine = fields((await client.get("/schedules?edit=daily")).text)
    theirs = {**mine, "params": '{"b": 8}'}
    wrong = await client.post("/schedules/save", data={**mine, "cron": "nonsense"})
    assert (await client.post("/schedules/save", data=theirs)).status_code == 303
    mine = {**fields(wrong.text), "cron": "0 10 * * *"}
    answer = await client.post("/schedules/save", data=mine)
    assert answer.status_code == 422
    assert "somebody has changed this schedule" in answer.text.casefold()
    kept = await desk.app.schedules.get("daily")
    assert (kept.cron_expression, kept.param_overrides) == ("0 9 * * *", b'{"b":8}')
    again = fields(answer.text)
    assert again["cron"] == "0 10 * * *", "what was typed is not lost"
    assert (await client.post("/schedules/save", data=again)).status_code == 303, "now it is meant"
    assert (await desk.app.schedules.get("daily")).cron_expression == "0 10 * * *"


@on_a_desk
async def test_a_schedule_that_was_deleted_meanwhile_can_be_made_again(desk: Desk, client: httpx2.AsyncClient) -> None:
    await desk.app.templates.put("sum", "add", {"a": 1, "b": 2})
    await desk.app.schedules.put("daily", "sum", "0 9 * * *")
    mine = fields((await client.get("/schedules?edit=daily")).text)
    await desk.app.schedules.delete("daily")
    answer = await client.post("/schedules/save", data=mine)
    assert answer.status_code == 422
    assert "There is no schedule 'daily'" in html.unescape(answer.text)
    assert (await client.post("/schedules/save", data=fields(answer.text))).status_code == 303
    assert (await desk.app.schedules.get("daily")).cron_expression == "0 9 * * *"


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


@on_a_desk
async def test_a_limit_that_is_set_again_keeps_what_was_not_said(desk: Desk, client: httpx2.AsyncClient) -> None:
    """The line below all limits asks for two numbers; there is more to a limit."""
    limits = desk.app.limits
    await limits.set("org:acme", 5, weight=2)
    await limits.pause("org:acme")
    await limits.set("gpu", 2, rate="10/m", burst=7)
    said = {"csrf": await form_token(client)}
    assert (await client.post("/limits", data={**said, "key": "org:acme", "most": "", "rate": "3/s"})).status_code == 303
    assert (await client.post("/limits", data={**said, "key": " gpu ", "most": "4", "rate": ""})).status_code == 303
    gpu, acme = await limits.list()
    assert (acme.max_used, acme.per_second, acme.weight, acme.paused_at is None) == (5, 3.0, 2.0, False)
    assert (gpu.max_used, gpu.per_second, gpu.burst) == (4, 10 / 60, 7.0)
    nothing = await client.post("/limits", data={**said, "key": "gpu", "most": "", "rate": ""})
    assert nothing.status_code == 422, "it said Saved"
    assert len(await limits.list()) == 2


@pytest.mark.parametrize("rate", ["10/s", "10/m", "1/d", "5000/h", "2.5/s", "7/d", "0.3/d", "1/h"])
def test_the_limits_of_a_queue_are_saved_as_they_are_shown(rate: str) -> None:
    """Also one of few starts a day, which is a small number of starts per second."""

    @on_a_desk
    async def shown(desk: Desk, client: httpx2.AsyncClient) -> None:
        limits = desk.app.limits
        await desk.add.enqueue(1, 2)
        await limits.set("queue:default", 3, rate=rate, burst=20)
        [before] = await limits.list()
        page = html.unescape((await client.get("/queues/default")).text)
        told = page.split('name="rate"')[1].split('value="')[1].split('"')[0]
        said = {"csrf": await form_token(client), "key": "queue:default", "whole": "true", "most": "4", "rate": told}
        assert (await client.post("/limits", data=said)).status_code == 303
        [after] = await limits.list()
        assert (after.max_used, after.per_second, after.burst) == (4, before.per_second, 20)
        await client.post("/limits", data={**said, "most": ""})
        [after] = await limits.list()
        assert (after.max_used, after.per_second) == (None, before.per_second), "an empty field is no limit"
        await client.post("/limits", data={**said, "most": "2", "rate": ""})
        [after] = await limits.list()
        assert (after.max_used, after.per_second) == (2, None)
        await client.post("/limits", data={**said, "most": "", "rate": ""})
        assert await limits.list() == []

    shown()
