"""Pictures of every page: light, dark and on a phone, of a store made for it, served on loopback.

`python tools/screenshots.py DIRECTORY` writes all of them; with `--docs` also the five small ones of the README."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import uvicorn
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).parent))

from browser import chromium
from lively import Past, lively_app

from windlass.admin import Admin
from windlass.admin.views import Filter
from windlass.clock import SECOND
from windlass.web.access import LOCAL, Access
from windlass.web.app import web_app

DOCS: Final = Path(__file__).parent.parent / "docs" / "assets"
IN_DOCS: Final = ("overview", "jobs", "job-dead", "schedules", "dead-letters")
PAGES: Final = {
    "overview": "/", "jobs": "/jobs", "jobs-dead": "/jobs?state=dead", "schedules": "/schedules?edit=nightly_rollup",
    "dead-letters": "/dead-letters", "queues": "/queues", "queue": "/queues/billing", "workers": "/workers",
    "groups": "/groups", "templates": "/templates", "holds": "/holds", "tokens": "/tokens", "settings": "/settings",
    "webhooks": "/webhooks", "usage": "/usage", "audit": "/audit", "sign-in": "/sign-in", "nothing": "/jobs/nothing",
    "empty": "/jobs?type=nothing.like.this", "new-job": "/jobs/new",
}  # fmt: skip


JOBS: Final = {
    "job-dead": Filter(state="dead", type="billing.capture_payment"), "job-parked": Filter(label="parked"),
    "job-running": Filter(state="running", queue="exports"), "job-scheduled": Filter(label="scheduled"),
}  # fmt: skip


class Served:
    """A lively store behind a server of its own thread, until the block ends."""

    def __init__(self, file: Path, minutes: int, share: float) -> None:
        self.file, self.minutes, self.share = file, minutes, share
        self.pages = dict(PAGES)
        self.ready = threading.Event()
        self.server: uvicorn.Server | None = None
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        finally:
            self.ready.set()  # also when it failed: nobody waits for it any more

    async def _main(self) -> None:
        async with lively_app(f"sqlite:///{self.file}") as app:
            past = Past(app)
            await past.make(self.minutes, self.share)
            admin = Admin(app.client, app.tasks)
            for name, wanted in JOBS.items():
                found = (await admin.jobs(wanted, limit=1)).jobs
                if found:
                    self.pages[name] = f"/jobs/{found[0].id}"
            for group in (await admin.groups(10)).groups:
                self.pages[{"warehouse refresh": "group", "nightly": "group-sequence"}.get(group.name, "group-plain")] = (
                    f"/groups/{group.id}"
                )
            self.pages["webhook"] = f"/webhooks/{(await admin.webhooks()).webhooks[0].webhook_id}"
            web = web_app(app, access=Access(anonymous=LOCAL))
            self.server = uvicorn.Server(
                uvicorn.Config(web, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
            )
            self.ready.set()
            beating = asyncio.create_task(self._beat(past))
            await self.server.serve(sockets=[self.listening])
            beating.cancel()

    async def _beat(self, past: Past) -> None:
        while True:
            await past.beats(past.client.now())
            await past.driver.lead("worker-eu-2", lease_for=600 * SECOND, now=past.client.now())
            await asyncio.sleep(5)

    def __enter__(self) -> Served:
        self.thread.start()
        assert self.ready.wait(300)
        assert self.server is not None, "the store could not be made"
        return self

    def __exit__(self, *_: object) -> None:
        assert self.server is not None
        self.server.should_exit = True
        self.thread.join(10)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--force-color-profile=srgb"])
        try:
            yield opened
        finally:
            opened.close()


def shoot(opened: Browser, served: Served, into: Path, looks: dict[str, dict[str, Any]], only: list[str]) -> None:
    for look, options in looks.items():
        context = opened.new_context(**options)
        page = context.new_page()
        for name, path in served.pages.items():
            if only and name not in only:
                continue
            page.goto(served.address + path, wait_until="load")
            page.wait_for_timeout(250)
            page.screenshot(path=into / f"{name}-{look}.png", full_page=name not in ("jobs", "queues"))
        context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--docs", action="store_true", help="also write the pictures of the README")
    parser.add_argument("--only", nargs="*", default=[], help="names of pages")
    parser.add_argument("--looks", nargs="*", default=["light", "dark", "phone"])
    parser.add_argument("--minutes", type=int, default=60)
    said = parser.parse_args()
    said.directory.mkdir(parents=True, exist_ok=True)
    wide = {"width": 1280, "height": 900}
    looks: dict[str, dict[str, Any]] = {
        "light": {"viewport": wide, "color_scheme": "light"},
        "dark": {"viewport": wide, "color_scheme": "dark"},
        "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light", "has_touch": True, "is_mobile": True},
        "wide": {"viewport": {"width": 1920, "height": 1080}, "color_scheme": "light"},
    }  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as place,
        Served(Path(place) / "lively.db", said.minutes, 1.0) as served,
        browser() as opened,
    ):
        shoot(opened, served, said.directory, {look: looks[look] for look in said.looks}, said.only)
        if said.docs:
            DOCS.mkdir(parents=True, exist_ok=True)
            small = {"viewport": {"width": 1200, "height": 800}, "color_scheme": "light"}
            page = opened.new_context(**small).new_page()  # type: ignore[arg-type]
            for name in IN_DOCS:
                page.goto(served.address + served.pages[name], wait_until="load")
                page.wait_for_timeout(250)
                page.screenshot(path=DOCS / f"{name}.png")
    print(f"{len(list(said.directory.glob('*.png')))} pictures in {said.directory}")


if __name__ == "__main__":
    main()
