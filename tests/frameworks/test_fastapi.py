"""The example application, and the parts that it is made of."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from windlass import Windlass
from windlass.asgi import jobs_of, lifespan
from windlass.errors import InvalidInput, ResourceUnavailable, StoreUnavailable

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_example_application_works_as_it_says(tmp_path: Path) -> None:
    """In a process of its own, since it is a module with a file."""
    story = """
import os, sys
os.environ.update(SHOP_FILE="shop.db", SHOP_STAFF_KEY="k")
from fastapi.testclient import TestClient
from fastapi_shop import Order, Session, api, engine, jobs
with TestClient(api) as client:
    made = client.post("/orders/tea").json()
    assert client.post("/orders/unicorn").status_code == 404
    assert client.get(f"/jobs/{made['job']}").json() == {"state": "queued", "error": None}
    assert client.get("/jobs/nothing").status_code == 404
    with Session(engine) as session:
        assert [order.item for order in session.query(Order)] == ["tea"], "rolled back with its job"
    assert client.get("/windlass/", follow_redirects=False).status_code in (302, 303, 401), "nobody is known"
    assert client.get("/windlass/api/jobs", headers={"x-staff-key": ""}).status_code == 401
    page = client.get("/windlass/jobs", headers={"x-staff-key": "k"})
    assert page.status_code == 200 and made["job"] in page.text, page.text
    assert page.text.count('href="/windlass/') > 5, "links stay below the mount"
    assert client.get("/windlass/static/app.css").status_code == 200
jobs.open()
assert jobs.run(drain=True).succeeded == 1
with Session(engine) as session:
    assert session.get_one(Order, made["order"]).shipped
"""
    done = subprocess.run(
        [sys.executable, "-c", story], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={"PYTHONPATH": str(EXAMPLES), "PATH": "/usr/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_store_is_open_while_the_application_is_and_a_worker_may_be_beside_it() -> None:
    jobs = Windlass("memory://", poll="10ms")
    story = list[str]()

    @jobs.resource
    def text_() -> Iterator[str]:
        story.append("opens")
        yield "x"
        story.append("closes")

    @jobs.task
    async def work(n: int) -> int:
        return n + 1

    @asynccontextmanager
    async def own(app: Any) -> AsyncIterator[dict[str, str]]:
        story.append("own begins")
        yield {"own": "state"}
        story.append("own ends")

    async def answer(request: Request) -> PlainTextResponse:
        assert request.state.own == "state"
        assert request.state.windlass is jobs
        job = await work.enqueue(41)
        return PlainTextResponse(str(await job.result(timeout=5)))

    api = Starlette(routes=[Route("/", answer)], lifespan=lifespan(jobs, worker=True, around=own, concurrency=2))
    for _ in range(2):  # a lifespan may begin again, as in tests
        with TestClient(api) as client:
            assert client.get("/").text == "42"
        assert story == ["own begins", "opens", "closes", "own ends"]
        story.clear()


def test_what_does_not_open_keeps_the_application_from_starting(tmp_path: Path) -> None:
    unopenable = Windlass(f"sqlite:///{tmp_path}/nowhere/jobs.db")
    with pytest.raises(StoreUnavailable), TestClient(FastAPI(lifespan=lifespan(unopenable))):
        pass
    jobs = Windlass("memory://")

    @jobs.resource
    def broken() -> Iterator[str]:
        raise OSError("broken")
        yield ""

    @jobs.task
    async def work() -> None: ...

    with pytest.raises(ResourceUnavailable), TestClient(FastAPI(lifespan=lifespan(jobs, worker=True))):
        pass


def test_a_dependency_gives_the_app_and_can_be_overridden() -> None:
    jobs, other = Windlass("memory://"), Windlass("memory://")
    api = FastAPI(lifespan=lifespan(jobs))

    @api.get("/")
    async def which(app: Windlass = Depends(jobs_of)) -> str:  # noqa: B008 - as FastAPI wants it
        return "jobs" if app is jobs else "other"

    with TestClient(api) as client:
        assert client.get("/").json() == "jobs"
        api.dependency_overrides[jobs_of] = lambda: other
        assert client.get("/").json() == "other"
        api.dependency_overrides.clear()
    bare = FastAPI()
    bare.get("/")(which)
    with pytest.raises(InvalidInput, match="this application has no Windlass"):
        TestClient(bare).get("/")


def test_sessions_and_connections_of_sqlalchemy_on_a_file(tmp_path: Path) -> None:
    jobs = Windlass(f"sqlite:///{tmp_path}/shop.db", sqlite="stdlib")

    @jobs.task
    def ship(item: str) -> None: ...

    jobs.open()
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    with engine.begin() as conn:
        conn.execute(text("create table orders (item text)"))
        ship.using(conn=conn).enqueue_sync("tea")
    with Session(engine) as session, session.begin():
        session.execute(text("insert into orders values ('milk')"))
        ship.using(conn=session).enqueue_sync("milk")
    with Session(engine) as session:
        session.execute(text("insert into orders values ('unicorn')"))
        gone = ship.using(conn=session).enqueue_sync("unicorn")
        session.rollback()
        assert session.scalars(text("select item from orders")).all() == ["milk"]
    engine.dispose()
    with pytest.raises(LookupError):
        gone.fetch_sync()
    assert jobs.run(drain=True).succeeded == 2
