"""Webhooks on their pages: a secret is shown once and in no address, and who may only read is shown none of them."""

from __future__ import annotations

import asyncio
import re

import httpx2

from web.conftest import Desk, on_a_desk
from web.staged import Receiver, stage
from web.test_pages import check, form_token
from windlass.principal import Principal
from windlass.web.access import Access

URL = "https://receiver.invalid/key-4711"


def secrets_in(text: str) -> set[str]:
    return set(re.findall(r"whsec_[A-Za-z0-9+/=]+", text.replace("&#43;", "+")))


@on_a_desk
async def test_a_secret_is_shown_in_the_answer_that_made_it_and_nowhere_else(
    desk: Desk, client: httpx2.AsyncClient
) -> None:
    desk.app.client.sender = Receiver(200)
    csrf = await form_token(client)
    made = await client.post("/webhooks", data={"csrf": csrf, "url": URL, "events": ["job.dead", "job.retried"]})
    assert made.status_code == 200
    check("/webhooks", made.text)
    [first] = secrets_in(made.text)
    [hook] = (await client.get("/api/webhooks")).json()["webhooks"]
    assert (hook["url"], hook["events"]) == (URL, ["job.dead", "job.retried"])
    path = f"/webhooks/{hook['webhook_id']}"
    asked = await client.post(f"{path}/rotate", data={"csrf": csrf, "keep": "2h"})
    assert "Rotate the secret?" in asked.text
    assert secrets_in(asked.text) == set()
    rotated = await client.post(f"{path}/rotate", data={"csrf": csrf, "keep": "2h", "sure": "1"})
    assert rotated.status_code == 200
    [second] = secrets_in(rotated.text)
    assert second != first
    for page in ("/webhooks", path, "/audit"):
        assert secrets_in((await client.get(page)).text) == set(), page


@on_a_desk
async def test_a_wrong_webhook_is_refused_beside_what_was_typed(desk: Desk, client: httpx2.AsyncClient) -> None:
    desk.app.client.sender = Receiver(200)
    csrf = await form_token(client)
    wrong = await client.post("/webhooks", data={"csrf": csrf, "url": "ftp://nowhere.invalid", "events": "job.dead"})
    assert wrong.status_code == 422
    assert 'role="alert"' in wrong.text
    assert 'value="ftp://nowhere.invalid"' in wrong.text
    check("wrong", wrong.text)
    await client.post("/webhooks", data={"csrf": csrf, "url": URL, "events": "job.dead"})
    [hook] = (await client.get("/api/webhooks")).json()["webhooks"]
    path = f"/webhooks/{hook['webhook_id']}"
    none = await client.post(path, data={"csrf": csrf, "url": URL})
    assert none.status_code == 422, "without any event"
    assert "Save webhook" in none.text
    late = await client.post(f"{path}/rotate", data={"csrf": csrf, "keep": "nonsense", "sure": "1"})
    assert late.status_code == 422
    assert "Save webhook" in late.text
    assert (await client.get(f"/api{path}")).json() == hook


@on_a_desk
async def test_a_webhook_is_changed_and_switched(desk: Desk, client: httpx2.AsyncClient) -> None:
    ids = await stage(desk)
    desk.app.client.sender = Receiver(200)
    csrf = await form_token(client)
    path = f"/webhooks/{ids.silent}"
    assert "It was switched off" in (await client.get(path)).text
    on = await client.post(f"{path}/enable", data={"csrf": csrf})
    assert on.headers["location"] == f"{path}?done=enabled"
    await client.post(path, data={"csrf": csrf, "url": URL, "events": "job.cancelled"})
    hook = (await client.get(f"/api{path}")).json()
    assert (hook["url"], hook["events"], hook["enabled"]) == (URL, ["job.cancelled"], True)
    await client.post(f"{path}/disable", data={"csrf": csrf})
    assert (await client.get(f"/api{path}")).json()["enabled"], "it asks first"
    await client.post(f"{path}/disable", data={"csrf": csrf, "sure": "1"})
    assert not (await client.get(f"/api{path}")).json()["enabled"]


@on_a_desk
async def test_a_test_message_says_whether_it_arrived(desk: Desk, client: httpx2.AsyncClient) -> None:
    ids = await stage(desk)
    csrf = await form_token(client)
    for status, told in ((204, "pinged"), (500, "ping-failed")):
        desk.app.client.sender = Receiver(status)
        answer = await client.post(f"/webhooks/{ids.webhook}/ping", data={"csrf": csrf})
        assert answer.headers["location"] == f"/webhooks/{ids.webhook}?done={told}"


def test_who_operates_sees_webhooks_and_sends_again_and_who_reads_does_not() -> None:
    """The same here and in the API."""

    async def main() -> None:
        for scope, status in (("read", 403), ("operate", 200)):
            desk = Desk(Access(anonymous=Principal(actor="x", scopes=frozenset({scope}))))
            async with desk.app, desk.client() as client:
                ids = await stage(desk)
                for path in ("/webhooks", f"/webhooks/{ids.webhook}"):
                    page = await client.get(path)
                    assert (page.status_code, "/key-" in page.text) == (status, status == 200), path
                    assert (await client.get(f"/api{path}")).status_code == status
                assert ('href="/webhooks"' in (await client.get("/")).text) == (status == 200)
                assert ("Beginning of the answer" in page.text, "Replay" in page.text) == (status == 200, status == 200)
                assert "Send test" not in page.text
                for path in (f"/webhooks/{ids.webhook}/ping", f"/webhooks/{ids.webhook}/rotate"):
                    assert (await client.post(f"/api{path}")).status_code == 403

    asyncio.run(main())
