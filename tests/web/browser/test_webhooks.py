"""A webhook from its making to its end, as a person does it, before a receiver that is really called."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

from web.browser.conftest import Hand


class Receiver(ThreadingHTTPServer):
    """Remembers the ids of what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.heard: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}/hook"


class Answers(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.heard.append(self.headers["webhook-id"])
        self.send_response(200)
        self.send_header("content-length", "12")
        self.end_headers()
        self.wfile.write(b"thanks a lot")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join(10)


def test_a_webhook_is_made_tested_replayed_and_deleted(hand: Hand, receiver: Receiver) -> None:
    page = hand.go("/webhooks")
    page.get_by_label("Address").fill(receiver.url)
    page.get_by_label("job.retried").check()
    hand.press(page.get_by_role("button", name="Create webhook"))
    secret = page.locator("#secret span").inner_text()
    assert secret.startswith("whsec_")
    assert "whsec_" not in page.url
    hand.press(page.get_by_role("button", name="Send test"))
    assert hand.told() == "The test message arrived"
    assert secret not in page.content()
    [message] = receiver.heard
    row = page.get_by_role("row").filter(has_text="webhook.ping")
    expect(row.locator(".state")).to_have_text("Sent")
    row.locator("summary").click()
    expect(row.locator("pre")).to_have_text("thanks a lot")
    hand.press(row.get_by_role("button", name=f"Replay {message}"))
    assert hand.told() == "It is sent once more"
    assert hand.served.api(f"/deliveries/{message}")["status"] == "queued"
    path = page.url.partition("?")[0]
    hand.press(page.get_by_role("button", name="Delete"), sure=False)
    page.goto(path)
    hand.press(page.get_by_role("button", name="Delete"))
    assert hand.told() == "Deleted"
    assert receiver.url not in page.content()


def test_a_webhook_is_changed_switched_and_given_another_secret(hand: Hand) -> None:
    page = hand.go(f"/webhooks/{hand.served.ids.silent}")
    hand.press(page.get_by_role("button", name="Enable"))
    assert hand.told() == "Enabled"
    page.get_by_label("Address").fill("http://127.0.0.1:9/other")
    page.get_by_label("group.finished").uncheck()
    hand.press(page.get_by_role("button", name="Save webhook"))
    assert hand.told() == "Saved"
    hook = hand.served.api(f"/webhooks/{hand.served.ids.silent}")
    assert (hook["url"], hook["events"], hook["enabled"]) == ("http://127.0.0.1:9/other", ["job.dead"], True)
    hand.press(page.get_by_role("button", name="Disable"))
    assert hand.told() == "Disabled"
    hand.press(page.get_by_role("button", name="Rotate secret"))
    secret = page.locator("#secret span").inner_text()
    assert hand.served.api(f"/webhooks/{hand.served.ids.silent}")["secret_ends"] == secret[-4:]
    assert secret not in hand.go(f"/webhooks/{hand.served.ids.silent}").content()
