"""Coming in: tokens, sessions, forms of other sites, and what a part of the store is to those who have but that."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from starlette.requests import Request as HttpRequest

from web.conftest import Desk
from windlass.admin import Admin
from windlass.clock import SECOND
from windlass.errors import InvalidInput
from windlass.principal import Principal
from windlass.web.access import LOCAL, Access
from windlass.web.app import web_app
from windlass.web.bounds import Bounds, Pace
from windlass.web.problems import Trouble
from windlass.web.serving import guarded
from windlass.web.sessions import LIFE, MOST, Sessions

Story = Callable[[Desk, httpx2.AsyncClient], Awaitable[None]]


def lived(story: Story, access: Access | None = None, **client: Any) -> None:
    async def main() -> None:
        desk = Desk(access or Access())
        async with desk.app, desk.client(**client) as visitor:
            await story(desk, visitor)

    asyncio.run(main())


async def token(desk: Desk, *scopes: str, name: str = "ci", **bounds: Any) -> str:
    _, secret = await desk.web.state.site.admin().create_token(name, scopes, **bounds)
    return str(secret)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def csrf_in(page: httpx2.Response) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page.text)
    assert found is not None, page.text
    return found[1]


async def signed_in(desk: Desk, client: httpx2.AsyncClient, *scopes: str) -> str:
    """A session; answers its CSRF token."""
    asked = await client.get("/sign-in")
    form = {"csrf": csrf_in(asked), "token": await token(desk, *scopes)}
    answer = await client.post("/sign-in", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    return csrf_in(await client.get("/"))


# ------------------------------------------------------------------------------------------------------------------ tokens


def test_a_token_lets_in_until_it_is_revoked_or_over() -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        good = await token(desk, "read")
        assert (await client.get("/api/queues", headers=bearer(good))).status_code == 200
        for other in (good[:-1], f"{good}x", "", "wl_" + "0" * 49):
            assert (await client.get("/api/queues", headers=bearer(other))).status_code == 401
        short = await token(desk, "read", name="short", expires_in=0.05)
        await asyncio.sleep(0.06)  # the store's own clock decides
        assert (await client.get("/api/queues", headers=bearer(short))).status_code == 401
        await desk.web.state.site.admin().revoke_token("ci")
        answer = await client.get("/api/queues", headers=bearer(good))
        assert (answer.status_code, answer.json()["type"]) == (401, "urn:windlass:unauthenticated")
        assert good not in answer.text

    lived(story)


def test_the_first_token_closes_the_door_that_was_open_on_this_machine() -> None:
    async def main() -> None:
        desk = Desk()
        async with desk.app:
            admin = Admin(desk.app.client)
            desk.web = web_app(desk.app, access=await guarded(admin, "127.0.0.1"))
            async with desk.client() as client:
                made = await client.post("/api/tokens", json={"name": "ada", "scopes": ["read"], "expires_in": 0.05})
                assert made.status_code == 201
                assert (await client.get("/api/queues")).status_code == 401
                assert (await client.get("/")).status_code == 303
                await asyncio.sleep(0.06)  # the store's own clock decides
                assert (await client.get("/api/queues")).status_code == 401
            assert await without_token(desk, await guarded(admin, "127.0.0.1")) == 401, "an expired token opens no door"
            with pytest.raises(InvalidInput, match="no token guards"):
                await guarded(admin, "0.0.0.0")  # noqa: S104
            await admin.revoke_token("ada")
            assert await without_token(desk, await guarded(admin, "127.0.0.1")) == 200

    asyncio.run(main())


@pytest.mark.parametrize(("host", "used"), [("0.0.0.0", False), ("127.0.0.1", False), ("127.0.0.1", True)])  # noqa: S104
def test_a_server_that_a_token_guarded_is_not_opened_by_taking_it_back(host: str, used: bool) -> None:
    """Nobody need have tried the door in between. `used`: the token came after the server, and somebody came in by it."""

    async def main() -> None:
        desk = Desk()
        async with desk.app:
            admin = Admin(desk.app.client)
            early = None if used else await admin.create_token("ada", ("read",))
            desk.web = web_app(desk.app, access=await guarded(admin, host))
            _, secret = early or await admin.create_token("ada", ("read",))
            async with desk.client() as client:
                if used:
                    assert (await client.get("/api/queues", headers=bearer(secret))).status_code == 200
                await admin.revoke_token("ada")
                assert (await client.get("/api/queues")).status_code == 401

    asyncio.run(main())


async def without_token(desk: Desk, access: Access) -> int:
    """What a server that begins now answers."""
    desk.web = web_app(desk.app, access=access)
    async with desk.client() as client:
        return (await client.get("/api/queues")).status_code


def test_a_token_that_is_refused_is_not_replaced_by_a_session_or_by_being_here() -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        assert (await client.get("/api/queues")).status_code == 200
        assert (await client.get("/api/queues", headers=bearer("nonsense"))).status_code == 401

    lived(story, Access(anonymous=LOCAL))


def test_the_program_around_us_may_say_who_asks() -> None:
    async def whoever(http: HttpRequest) -> Principal | None:
        name = http.headers.get("x-user")
        return None if name is None else Principal(actor=f"user:{name}", scopes=frozenset({"operate"}))

    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        await desk.add.enqueue(1, 2)
        assert (await client.post("/api/queues/default/pause")).status_code == 401
        assert (await client.post("/api/queues/default/pause", headers={"X-User": "ada"})).json()["changed"]
        assert (await client.get("/api/audit", headers={"X-User": "ada"})).status_code == 403
        [line] = (await desk.web.state.site.admin().audit()).lines
        assert (line.actor, line.action) == ("user:ada", "queue.pause")
        other = {"X-User": "ada", "Authorization": "Bearer of-their-own"}
        assert (await client.get("/api/queues", headers=other)).status_code == 200

    lived(story, Access(authenticate=whoever))


# --------------------------------------------------------------------------------------------------------------- sessions


@pytest.mark.parametrize(
    ("scopes", "bounds", "home"),
    [(("read",), {}, "/"), (("read",), {"org_id": "acme"}, "/jobs"), (("enqueue",), {"queues": ("mail",)}, "/jobs/new")],
)
def test_who_signs_in_comes_to_a_page_that_leads_on(scopes: tuple[str, ...], bounds: Any, home: str) -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        form = {"csrf": csrf_in(await client.get("/sign-in")), "token": await token(desk, *scopes, **bounds)}
        page = await client.post("/sign-in", data=form, follow_redirects=True)
        assert (page.status_code, page.url.path) == (200, home)
        assert ("No worker leads" in page.text) == (home == "/")
        for link in set(re.findall(r'<li><a href="(/[^"]*)"', page.text)):
            assert (await client.get(link, follow_redirects=True)).status_code == 200, link

    lived(story, base_url="https://localhost")


def test_signing_in_gives_a_new_cookie_that_scripts_cannot_read() -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        asked = await client.get("/sign-in?next=/x")
        before = client.cookies["__Host-windlass"]
        form = {"csrf": csrf_in(asked), "token": await token(desk, "read"), "next": "/?page=2"}
        answer = await client.post("/sign-in", data=form)
        assert (answer.status_code, answer.headers["location"]) == (303, "/?page=2")
        cookie = answer.headers["set-cookie"]
        assert client.cookies["__Host-windlass"] != before
        for part in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"):
            assert part in cookie
        assert "Domain" not in cookie
        assert (await client.get("/")).status_code == 200
        assert (await client.get("/api/queues")).status_code == 200

    lived(story, base_url="https://localhost")


def test_a_wrong_token_is_refused_without_a_word_about_why() -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        asked = await client.get("/sign-in")
        answer = await client.post("/sign-in", data={"csrf": csrf_in(asked), "token": "wl_secret-of-mine"})
        assert answer.status_code == 403
        assert "not valid" in answer.text
        assert "secret-of-mine" not in answer.text
        assert (await client.get("/")).status_code == 303

    lived(story)


@pytest.mark.parametrize(
    "place", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "\n/"]
)
def test_signing_in_never_leads_to_another_site(place: str) -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        asked = await client.get("/sign-in")
        form = {"csrf": csrf_in(asked), "token": await token(desk, "read"), "next": place}
        assert (await client.post("/sign-in", data=form)).headers["location"] == "/"

    lived(story)


def test_signing_out_and_revoking_end_a_session_for_good() -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        csrf = await signed_in(desk, client, "read")
        kept = client.cookies["windlass"]
        answer = await client.post("/sign-out", data={"csrf": csrf})
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
        client.cookies.clear()
        again = {"Cookie": f"windlass={kept}"}
        assert (await client.get("/api/queues", headers=again)).status_code == 401
        asked = await client.get("/sign-in")
        await client.post("/sign-in", data={"csrf": csrf_in(asked), "token": await token(desk, "read", name="two")})
        assert (await client.get("/api/queues")).status_code == 200
        await desk.web.state.site.admin().revoke_token("two")
        assert (await client.get("/api/queues")).status_code == 401

    lived(story)


def test_sessions_end_by_themselves_and_are_bounded() -> None:
    now = 0

    async def verify(secret: str) -> Principal | None:
        return LOCAL

    async def main() -> None:
        nonlocal now
        sessions = Sessions(verify, lambda: now)
        name = await sessions.begin("t")
        assert name is not None
        now = LIFE - 1
        assert await sessions.who(name) == LOCAL
        now = LIFE
        assert await sessions.who(name) is None
        names = [await sessions.begin("t") for _ in range(MOST + 1)]
        assert await sessions.who(names[0] or "") is None
        assert await sessions.who(names[1] or "") == LOCAL

    asyncio.run(main())


def test_nobody_signs_out_others_by_signing_in_again_and_again() -> None:
    async def verify(secret: str) -> Principal | None:
        return LOCAL

    async def main() -> None:
        sessions = Sessions(verify, lambda: 0)
        ada = await sessions.begin("of ada")
        for _ in range(2 * MOST):
            last = await sessions.begin("of somebody else")
        assert await sessions.who(ada or "") == LOCAL
        assert await sessions.who(last or "") == LOCAL

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------------------------- CSRF


SAME = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
FOREIGN = (
    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://localhost"}, {"Origin": "http://localhost:8000"},
)  # fmt: skip


def test_a_session_changes_nothing_without_the_token_of_a_page_of_ours() -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        await desk.add.enqueue(1, 2)
        csrf = await signed_in(desk, client, "operate")
        pause = "/api/queues/default/pause"
        for headers in ({}, SAME, {**SAME, "X-CSRF-Token": "0" * 64}, *({**one, "X-CSRF-Token": csrf} for one in FOREIGN)):
            answer = await client.post(pause, headers=headers)
            assert answer.status_code == 403, headers
            assert answer.json()["type"] in ("urn:windlass:csrf", "urn:windlass:cross-site")
        assert (await client.get("/api/queues")).json()["queues"][0]["paused_at"] is None
        assert (await client.post(pause, headers={**SAME, "X-CSRF-Token": csrf})).json()["changed"]

    lived(story)


def test_a_page_of_another_site_fetches_nothing_with_a_credential_that_is_not_its_own() -> None:
    """It could not read it, but it could open every stream that there may be."""

    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        for site in ("cross-site", "same-site"):
            fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
            for path in ("/api/jobs", "/jobs", "/api/events"):
                assert (await client.get(path, headers=fetched)).status_code == 403
            assert (await client.get("/jobs", headers={**fetched, "Sec-Fetch-Mode": "navigate"})).status_code == 200
            own = bearer(await token(desk, "read", name=site))
            assert (await client.get("/api/jobs", headers={**fetched, **own})).status_code == 200
            assert (await client.get("/livez", headers=fetched)).status_code == 200
        ours = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}
        for _ in range(2 * Bounds().burst):
            assert (await client.get("/api/jobs", headers=fetched)).status_code == 403, "and uses up nobody's pace"
        assert (await client.get("/api/jobs", headers=ours)).status_code == 200

    lived(story, Access(anonymous=LOCAL))


def test_the_token_of_one_session_is_nothing_to_another() -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        stale = await signed_in(desk, client, "operate")
        await client.post("/sign-out", data={"csrf": stale})
        asked = await client.get("/sign-in")
        form = {"csrf": csrf_in(asked), "token": await token(desk, "operate", name="two")}
        await client.post("/sign-in", data=form)
        replayed = await client.post("/api/queues/default/pause", headers={**SAME, "X-CSRF-Token": stale})
        assert (replayed.status_code, replayed.json()["type"]) == (403, "urn:windlass:csrf")

    lived(story)


def test_where_nobody_needs_a_token_browsers_still_need_that_of_a_page() -> None:
    """A page of any site could otherwise pause the queues of whoever runs us on their own machine."""

    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        await desk.add.enqueue(1, 2)
        pause = "/api/queues/default/pause"
        for headers in (SAME, *FOREIGN):
            assert (await client.post(pause, headers=headers)).status_code == 403, headers
        assert (await client.post(pause)).json()["changed"], "a program that is no browser"

    lived(story, Access(anonymous=LOCAL))


def test_bearers_need_no_token_of_a_page() -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        await desk.add.enqueue(1, 2)
        headers = {**bearer(await token(desk, "operate")), "Origin": "http://evil.example"}
        assert (await client.post("/api/queues/default/pause", headers=headers)).status_code == 200

    lived(story)


# ----------------------------------------------------------------------------------------------------------------- tenants


def test_a_tenant_is_what_its_token_says() -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        acme = bearer(await token(desk, "admin", org_id="acme"))
        other = (await desk.add.using(org_id="other", idempotency_key="k").enqueue(1, 2)).id
        wish = {"type": "add", "payload": {"a": 1, "b": 2}}
        own = (await client.post("/api/jobs", json=wish, headers=acme)).json()["job_id"]
        assert (await client.get(f"/api/jobs/{own}", headers=acme)).json()["job"]["org_id"] == "acme"
        assert [job["id"] for job in (await client.get("/api/jobs", headers=acme)).json()["jobs"]] == [own]
        assert (await client.get("/api/jobs?org_id=other", headers=acme)).json()["jobs"] == []
        for path in ("", "/runs", "/logs", "/why", "/chain"):
            foreign = await client.get(f"/api/jobs/{other}{path}", headers=acme)
            nothing = await client.get(f"/api/jobs/{'0' * len(other)}{path}", headers=acme)
            assert foreign.status_code == nothing.status_code == 404, path
            told = foreign.json()["detail"].replace(other, "x")
            assert told == nothing.json()["detail"].replace("0" * len(other), "x"), "the same words for both"
        for action in ("cancel", "retry", "run-now", "delete"):
            assert (await client.post(f"/api/jobs/{other}/{action}", headers=acme)).status_code == 404
        swept = await client.post("/api/jobs/bulk", json={"action": "cancel", "filter": {}}, headers=acme)
        assert swept.json()["done"] == [own]
        named = await client.post("/api/jobs/bulk", json={"action": "cancel", "ids": [other]}, headers=acme)
        assert named.json()["done"] == []
        assert (await desk.app.job(other).fetch()).state == "queued"
        events = await client.get(f"/api/events?job={other}", headers=acme)
        assert events.status_code == 404

    lived(story)


def test_a_tenant_cannot_reach_others_by_keys_ids_or_names() -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        acme = bearer(await token(desk, "admin", org_id="acme"))
        taken = (await desk.add.using(org_id="other", idempotency_key="k", dedupe="d").enqueue(1, 2)).id
        wish = {"type": "add", "payload": {"a": 1, "b": 2}}

        async def post(**said: Any) -> httpx2.Response:
            return await client.post("/api/jobs", json={**wish, **said}, headers=acme)

        for said in ({"idempotency_key": "k"}, {"dedupe": "d"}):
            answer = await post(**said)
            assert (answer.status_code, answer.json()["existed"]) == (201, False), said
        assert (await post(org_id="other")).status_code == 403
        assert (await post(org_id="acme")).status_code == 201
        assert (await post(id=taken)).status_code == 403
        assert (await post(limits=["gpu"])).status_code == 403
        refused = await post(after=[taken])
        assert refused.status_code == 422
        assert (await post(after=["nobody"])).json()["detail"] == refused.json()["detail"].replace(taken, "nobody")
        wide = {"name": "wide", "scopes": ["admin"]}
        assert (await client.post("/api/tokens", json=wide, headers=acme)).status_code == 403
        narrow = {**wide, "org_id": "acme"}
        assert (await client.post("/api/tokens", json=narrow, headers=acme)).status_code == 201
        assert {one["org_id"] for one in (await client.get("/api/tokens", headers=acme)).json()["tokens"]} == {"acme"}

    lived(story)


def test_a_token_of_some_queues_puts_jobs_there_and_nowhere_else() -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        mail = bearer(await token(desk, "enqueue", "operate", queues=["mail"]))
        wish = {"type": "add", "payload": {"a": 1, "b": 2}}
        own = (await client.post("/api/jobs", json=wish, headers=mail)).json()["job_id"]
        assert (await desk.app.job(own).fetch()).queue == "mail"
        assert (await client.post("/api/jobs", json={**wish, "queue": "default"}, headers=mail)).status_code == 403
        await desk.add.enqueue(1, 2)
        assert [job["queue"] for job in (await client.get("/api/jobs", headers=mail)).json()["jobs"]] == ["mail"]

    lived(story)


def test_payloads_are_whole_only_for_those_who_may_see_them() -> None:
    async def story(desk: Desk, client: httpx2.AsyncClient) -> None:
        @desk.app.task
        async def send(to: str, password: str) -> None: ...

        job = await send.enqueue("ada", "c4n4ry-s3cret")
        plain, whole = bearer(await token(desk, "read")), bearer(await token(desk, "read", "read:payload", name="two"))
        for path, pick in ((f"/api/jobs/{job.id}", "job"), ("/api/jobs", "jobs")):
            hidden = await client.get(path, headers=plain)
            assert "c4n4ry" not in hidden.text
            assert "ada" in hidden.text
            found = (await client.get(path, headers=whole)).json()[pick]
            view = found[0] if isinstance(found, list) else found
            assert (view["payload"]["password"], view["redacted"]) == ("c4n4ry-s3cret", False)

    lived(story)


def test_a_token_of_another_org_is_not_the_same_caller_for_having_the_same_name() -> None:
    """Nobody uses up the pace, or the streams, of somebody else."""

    async def main() -> None:
        desk = Desk(Access(), bounds=Bounds(rate=0.001, burst=2, streams_each=1))
        async with desk.app, desk.client() as client:
            acme, evil = [bearer(await token(desk, "read", org_id=org)) for org in ("acme", "evil")]
            codes = [(await client.get("/api/jobs", headers=evil)).status_code for _ in range(3)]
            assert codes == [200, 200, 429]
            assert (await client.get("/api/jobs", headers=acme)).status_code == 200

    asyncio.run(main())


# -------------------------------------------------------------------------------------------------------------------- pace


def test_a_caller_that_hurries_is_told_when_to_come_back() -> None:
    now = 0
    pace = Pace(Bounds(rate=2.0, burst=3), lambda: now)
    for _ in range(3):
        pace.take("a")
    with pytest.raises(Trouble) as refused:
        pace.take("a")
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "1"})
    pace.take("b")
    now += SECOND // 2
    pace.take("a")
    with pytest.raises(Trouble):
        pace.take("a")


def test_the_pace_is_that_of_the_caller_whatever_it_asks_for() -> None:
    async def main() -> None:
        desk = Desk(Access(anonymous=LOCAL), bounds=Bounds(rate=0.001, burst=2))
        async with desk.app, desk.client() as client:
            codes = [(await client.get(path)).status_code for path in ("/api/queues", "/api/jobs", "/api/limits", "/")]
            assert codes == [200, 200, 429, 429]

    asyncio.run(main())
