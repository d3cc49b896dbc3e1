"""A canary in a served store: no page, no stream, no answer and no error tells it to who may only read."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import msgspec
import pytest

from test_canary import CANARY, aviary
from web.conftest import Desk
from windlass import Secret
from windlass.principal import Principal
from windlass.web.access import Access
from windlass.web.app import web_app
from windlass.web.pages import live
from windlass.web.routes import ROUTES

READER = Principal(actor="reader", scopes=frozenset({"read"}))
SEER = Principal(actor="seer", scopes=frozenset({"read", "read:payload"}))


class Aviary(Desk):
    """Jobs that ended in every way and one that waits, in a group, a template and a schedule."""

    def __init__(self, who: Principal) -> None:
        self.app = aviary("memory://")
        self.web = web_app(self.app, access=Access(anonymous=who))
        self.names: dict[str, str] = {}

    async def fill(self) -> list[str]:
        leak = self.app.tasks["leak"].using(headers={"Authorization": f"Bearer {CANARY}"})
        args: dict[str, Any] = {"key": Secret(CANARY), "iban": CANARY, "password": CANARY}
        jobs = [await leak.enqueue(**args, how=how) for how in ("return", "raise", "reject")]
        async with self.app.group("g") as group:
            jobs += [group.add(leak.job(**args, how="reject"))]
        await self.app.templates.put("t", "leak", {**args, "how": "return"})
        await self.app.schedules.put("s", "t", "0 9 * * *", params={"iban": CANARY, "password": CANARY})
        await self.app.worker().run(drain=True)
        jobs += [await leak.using(delay="1h").enqueue(**args, how="return")]
        self.names = {"group_id": group.id, "id": group.id, "name": "t"}
        return [job.id for job in jobs]

    def paths(self, jobs: list[str]) -> list[str]:
        """Every address that is read, of every job where it is one of a job."""
        found = ["/dead-letters?by=type", "/dead-letters?by=list", "/schedules?edit=s"]
        for route in ROUTES:
            if route.method != "GET" or "{" not in route.path:
                found += [route.path] if route.method == "GET" and route.path != "/api/events" else []
            elif "/jobs/" in route.path:
                paths = [route.path.replace("{job_id}", job).replace("{id}", job) for job in jobs]
                found += [*paths, *(f"{path}?reveal=1" for path in paths if "/api/" not in path)]
            else:
                names = {**self.names, "name": "default"} if "/queues/" in route.path else self.names
                found.append("/".join(names.get(part[1:-1], part) for part in route.path.split("/")))
        return found


@asynccontextmanager
async def opened(who: Principal) -> AsyncIterator[tuple[Aviary, httpx2.AsyncClient, list[str]]]:
    desk = Aviary(who)
    async with desk.app, desk.client() as client:
        yield desk, client, await desk.fill()


def test_a_reader_meets_the_canary_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "endless", lambda: itertools.repeat(None, 1))  # each stream tells everything once, and ends

    async def story() -> None:
        async with opened(READER) as (desk, client, jobs):
            seen = dict[str, int]()
            paths = list(desk.paths(jobs))
            some = asyncio.Semaphore(5)  # a stream waits for news before it ends, and there may not be many at once

            async def get(path: str) -> Any:
                async with some:
                    return await client.get(path)

            for path, answer in zip(paths, await asyncio.gather(*map(get, paths)), strict=True):
                seen[path] = answer.status_code
                assert CANARY not in answer.text, path
                assert CANARY not in str(answer.headers), path
            good = [path for path, status in seen.items() if status == 200]
            assert {f"/jobs/{job}" for job in jobs} <= set(good)
            assert {f"/live/jobs/{jobs[-1]}", "/live/dead-letters", f"/groups/{desk.names['id']}"} <= set(good)
            assert len(good) > 60, seen

    asyncio.run(story())


def test_who_may_see_payloads_has_to_ask_for_them() -> None:
    async def story() -> None:
        async with opened(SEER) as (_, client, jobs):
            waiting = jobs[-1]
            assert CANARY not in (await client.get(f"/jobs/{waiting}")).text
            assert CANARY in (await client.get(f"/jobs/{waiting}?reveal=1")).text
            assert msgspec.json.decode((await client.get(f"/api/jobs/{waiting}")).content)["job"]["payload"] == {
                "key": "***", "iban": "***", "password": CANARY, "how": "return",
            }  # fmt: skip

    asyncio.run(story())
