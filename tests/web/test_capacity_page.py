"""The pages of queues and the API say whether a queue drains."""

from __future__ import annotations

import html

import httpx2

from busy import busy
from web.conftest import Desk, on_a_desk
from windlass.core.alterations import PutQueue
from windlass.core.sampling import MINUTE
from windlass.types import NewJob


@on_a_desk
async def test_the_page_of_a_queue_says_whether_it_drains_and_what_that_takes(
    desk: Desk, client: httpx2.AsyncClient
) -> None:
    await busy(desk.app.client.driver, desk.app.client.now(), come=120, end=60)
    page = html.unescape((await client.get("/queues/mail")).text)
    assert "Does not drain: arrivals exceed what is finished by 1/s." in page
    assert "To keep up: 3 workers" in page
    assert "5 samples, the last" in page
    rows = (await client.get("/queues")).text
    assert "Drains in" in rows
    assert ">never<" in rows


@on_a_desk
async def test_a_queue_that_drains_shows_its_time_and_one_that_is_empty_shows_none(
    desk: Desk, client: httpx2.AsyncClient
) -> None:
    driver, now = desk.app.client.driver, desk.app.client.now()
    await driver.alter([PutQueue("calm")], now=now - 5 * MINUTE)
    await driver.enqueue([NewJob(id=f"late-{n}", type="t", queue="mail") for n in range(240)], now=now - 9 * MINUTE)
    await busy(driver, now, come=0, end=30)
    assert "Nothing waits." in (await client.get("/queues/calm")).text
    assert "Drains in 3 min." in (await client.get("/queues/mail")).text
    rows = (await client.get("/queues")).text
    assert ">3\u00a0min<" in rows
    assert ">never<" not in rows


@on_a_desk
async def test_the_api_tells_the_answer_for_a_time_of_your_own(desk: Desk, client: httpx2.AsyncClient) -> None:
    await busy(desk.app.client.driver, desk.app.client.now(), come=120, end=60)
    for within, seconds, rate in (("", 600, 2.5), ("?within=5m", 300, 3.0), ("?within=100", 100, 5.0)):
        told = (await client.get(f"/api/queues/capacity{within}")).json()
        assert told["within"] == seconds
        [mail] = told["queues"]
        assert (mail["name"], mail["capacity"]["verdict"], mail["capacity"]["within"]["rate"]) == ("mail", "grows", rate)
    refused = await client.get("/api/queues/capacity?within=soon")
    assert (refused.status_code, refused.json()["field"]) == (422, "within")
