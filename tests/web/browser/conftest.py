"""A served store with one of everything, and a real browser before it.

The browser is a chromium of the system (tools/debian_packages.sh installs it). Where there is none these tests fail and say
so: pages that nobody has looked at are not tested."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import uvicorn
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Page, sync_playwright

from web.staged import Ids, staged
from windlass import Windlass
from windlass.web.access import LOCAL, Access
from windlass.web.app import web_app

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "there is no chromium: run tools/debian_packages.sh (the Debian package `chromium`), or set CHROMIUM=/path/to/it"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for longer than a module: while it is open there is an event loop in this thread, and no test of another kind
    could have its own."""
    found = os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.fail(MISSING)
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()


class Served:
    """Our pages on a port of this machine, in a thread of their own."""

    def __init__(self, access: Access, base: str = "") -> None:
        self.access, self.base = access, base
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}{base}"
        self.token = ""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._server: uvicorn.Server | None = None

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        finally:
            self._ready.set()

    async def _main(self) -> None:
        app = Windlass("memory://", webhook_networks="127.0.0.0/8")  # where the receivers of the tests are
        async with app:
            self.ids: Ids = await staged(app)
            web = web_app(app, access=self.access, base_path=self.base)
            _, self.token = await web.state.site.admin().create_token("the tests", ["admin"])
            config = uvicorn.Config(web, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
            self._server = uvicorn.Server(config)
            self._ready.set()
            await self._server.serve(sockets=[self.listening])

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._ready.wait(30)
        assert self._server is not None, "it could not be served"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.should_exit = True
        self._thread.join(10)

    def api(self, path: str, method: str = "GET", body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        answer = httpx2.request(method, f"{self.url}/api{path}", headers=headers, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def state(self, job_id: str) -> str:
        found: str = self.api(f"/jobs/{job_id}")["head"]["state"]
        return found


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(Access(anonymous=LOCAL)) as desk:
        yield desk


class Quiet:
    """Listens to a page: an error, a refused resource or a dialog from a name that broke out is kept."""

    def __init__(self, page: Page) -> None:
        self.heard: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.heard.append(f"error: {error}"))
        page.on("dialog", self._dialog)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and "status of 422" not in message.text:  # a form that was wrong
            self.heard.append(f"{message.type}: {message.text}")

    def _dialog(self, dialog: Dialog) -> None:
        self.heard.append(f"dialog: {dialog.message}")
        dialog.dismiss()


class Hand:
    """Somebody at the browser, with script or without."""

    def __init__(self, page: Page, served: Served, script: bool) -> None:
        self.page, self.served, self.script = page, served, script
        self.quiet = Quiet(page)

    def go(self, path: str) -> Page:
        self.page.goto(self.served.url + path)
        return self.page

    def press(self, button: Locator, *, sure: bool = True) -> None:
        """Press it, and answer the question that follows: in the dialog, or on the page that asks instead."""
        if not button.is_visible():  # in a menu
            self.page.locator("details.menu > summary").first.click()
        asks = button.get_attribute("data-confirm") is not None
        if not asks:
            self._follow(button)
        elif self.script:
            button.click()
            chosen = self.page.locator("#confirm [data-ok]" if sure else "#confirm [value=cancel]")
            if sure:
                self._follow(chosen)
            else:
                chosen.click()
        else:
            self._follow(button)
            self._follow(self.page.locator(".ask .sheet-foot .btn").nth(1 if sure else 0))

    def _follow(self, where: Locator) -> None:
        with self.page.expect_navigation():
            where.click()

    def told(self) -> str:
        return self.page.locator("#toast").inner_text()


@pytest.fixture(params=[True, False], ids=["with script", "without script"])
def hand(request: pytest.FixtureRequest, browser: Browser, served: Served) -> Iterator[Hand]:
    context = browser.new_context(java_script_enabled=request.param)
    context.set_default_timeout(8_000)
    made = Hand(context.new_page(), served, request.param)
    yield made
    context.close()
    assert made.quiet.heard == []


@pytest.fixture
def page(browser: Browser, served: Served) -> Iterator[Page]:
    context = browser.new_context()
    context.set_default_timeout(8_000)
    opened = context.new_page()
    quiet = Quiet(opened)
    yield opened
    context.close()
    assert quiet.heard == []
