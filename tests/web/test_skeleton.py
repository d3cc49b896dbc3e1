"""What holds for every request: headers, names, errors, sign-in, where we are mounted."""

from __future__ import annotations

import asyncio

import httpx2
from starlette.applications import Starlette
from starlette.routing import Mount

from web.conftest import BASE, Desk, on_a_desk
from windlass.web.access import LOCAL, Access
from windlass.web.app import web_app


@on_a_desk
async def test_the_api_answers_views_as_json(desk: Desk, client: httpx2.AsyncClient) -> None:
    await desk.add.enqueue(1, 2)
    answer = await client.get("/api/queues")
    assert answer.status_code == 200
    [queue] = answer.json()["queues"]
    assert (queue["name"], queue["counts"]) == ("default", {"queued": 1})


@on_a_desk
async def test_every_answer_has_security_headers_and_a_correlation_id(desk: Desk, client: httpx2.AsyncClient) -> None:
    for path in ("/", "/api/queues", "/nowhere", "/static/app.css", "/static/none"):
        answer = await client.get(path, headers={"X-Request-Id": "r-1"})
        assert "default-src 'none'" in answer.headers["content-security-policy"], path
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-request-id"] == "r-1"
    assert len((await client.get("/", headers={"X-Request-Id": "a b"})).headers["x-request-id"]) == 16


@on_a_desk
async def test_what_is_not_there_is_a_problem_with_its_correlation_id(desk: Desk, client: httpx2.AsyncClient) -> None:
    answer = await client.get("/nowhere")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
    assert answer.json()["correlation_id"] == answer.headers["x-request-id"]
    assert (await client.patch("/api/queues")).status_code == 405


@on_a_desk
async def test_another_host_name_is_refused_everywhere(desk: Desk, client: httpx2.AsyncClient) -> None:
    for path in ("/", "/api/queues", "/static/app.css"):
        answer = await client.get(path, headers={"Host": "rebound.example:8000"})
        assert answer.status_code == 421, path
        assert answer.json()["type"] == "urn:windlass:unknown-host"
    assert (await client.get("/", headers={"Host": "LOCALHOST:8000"})).status_code == 200


def test_pages_know_where_they_are_mounted() -> None:
    async def main() -> None:
        desk = Desk(base_path="/base")
        outer = Starlette(routes=[Mount("/outer", web_app(desk.app, access=Access(anonymous=LOCAL), base_path="/base"))])
        async with desk.app:
            for app, prefix in ((desk.web, "/base"), (outer, "/outer/base")):
                transport = httpx2.ASGITransport(app=app)
                async with httpx2.AsyncClient(transport=transport, base_url=BASE) as client:
                    page = await client.get(f"{prefix}/")
                    assert page.status_code == 200
                    assert f'href="{prefix}/static/app.css"' in page.text
                    assert (await client.get(f"{prefix}/static/app.css")).status_code == 200
                    assert (await client.get(f"{prefix}/api/queues")).status_code == 200

    asyncio.run(main())


def test_without_a_credential_pages_ask_and_the_api_refuses() -> None:
    async def main() -> None:
        desk = Desk(Access())
        async with desk.app, desk.client() as client:
            answer = await client.get("/api/queues")
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            page = await client.get("/?x=1")
            assert (page.status_code, page.headers["location"]) == (303, "/sign-in?next=%2F%3Fx%3D1")
            assert (await client.get(page.headers["location"])).status_code == 200

    asyncio.run(main())
