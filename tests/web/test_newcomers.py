"""Who is here for the first time is led on by every page: no dead end, no command for another store."""

from __future__ import annotations

import asyncio
import html
from pathlib import Path

import httpx2
import pytest

from web.conftest import Desk, on_a_desk
from web.staged import EVIL, stage
from windlass import Reject, Secret
from windlass.admin.views import Filter
from windlass.principal import Principal
from windlass.schedules import declare
from windlass.web.access import LOCAL, Access
from windlass.web.pages.first_run import lesson

BROWSER = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}


@on_a_desk
async def test_a_refused_host_is_named_with_the_setting_that_adds_it(desk: Desk, client: httpx2.AsyncClient) -> None:
    said = (await client.get("/", headers={"Host": "shop.example:8000"})).json()["detail"]
    assert "'shop.example'" in said
    assert "--allow-host" in said
    assert "hosts=" in said


@on_a_desk
async def test_a_browser_under_a_foreign_name_is_given_a_page(desk: Desk, client: httpx2.AsyncClient) -> None:
    page = await client.get("/", headers={**BROWSER, "Host": "shop.example:8000"})
    assert (page.status_code, page.headers["content-type"]) == (421, "text/html; charset=utf-8")
    assert "'shop.example'" in html.unescape(page.text)
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    other = await client.get("/api/queues", headers={"Host": "shop.example"})
    assert other.headers["content-type"] == "application/problem+json"


@on_a_desk
async def test_what_is_ready_is_not_said_to_wait_for_nobody(desk: Desk, client: httpx2.AsyncClient) -> None:
    """No worker has sampled the queue so far."""
    await desk.add.enqueue(1, 2)
    page = (await client.get("/", headers=BROWSER)).text
    assert "age not sampled yet" in page
    assert "none waits" not in page


@on_a_desk
async def test_a_host_that_is_told_again_is_inert_and_short(desk: Desk, client: httpx2.AsyncClient) -> None:
    for name in ("<script>alert(1)</script>", "x" * 5_000):
        page = await client.get("/", headers={**BROWSER, "Host": name})
        assert page.status_code == 421
        assert "<script" not in page.text
        assert len(page.text) < 1_000


@on_a_desk
async def test_who_did_not_sign_in_is_not_offered_to_sign_out(desk: Desk, client: httpx2.AsyncClient) -> None:
    assert "Sign out" not in (await client.get("/settings")).text
    _, token = await desk.web.state.site.admin().create_token("ada", ["admin"])
    form = (await client.get("/sign-in")).text
    assert "Go on without a token" in form, "this door is open to everybody who reaches it"
    csrf = form.split('name="csrf" value="')[1].split('"')[0]
    assert (await client.post("/sign-in", data={"csrf": csrf, "token": token, "next": "/"})).status_code == 303
    assert "Sign out" in (await client.get("/settings")).text


def test_where_a_token_is_needed_the_form_offers_no_way_around_it() -> None:
    async def main() -> None:
        desk = Desk(Access())
        async with desk.app, desk.client() as client:
            assert "without a token" not in (await client.get("/sign-in")).text

    asyncio.run(main())


def test_the_first_page_names_the_store_that_it_shows(tmp_path: Path) -> None:
    file = tmp_path / "it's here.db"

    async def main() -> None:
        desk = Desk(Access(anonymous=LOCAL), url=f"sqlite:///{tmp_path}/it's%20here.db")
        async with desk.app, desk.client() as client:
            for path in ("/", "/jobs"):
                page = html.unescape((await client.get(path)).text)
                assert "tasks.py" in page
                assert "windlass worker tasks:app" in page
                assert f'"sqlite:///{file}"'.replace("'", "%27").replace(" ", "%20") in page

    asyncio.run(main())


def test_a_file_is_named_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert f'app = Windlass("sqlite:///{tmp_path}/e.db")' in lesson("sqlite:///e.db", "windlass").program


def test_a_schema_of_its_own_is_named_with_the_store() -> None:
    assert 'app = Windlass("postgresql://db/shop", schema="bakery")' in lesson("postgresql://db/shop", "bakery").program
    assert 'app = Windlass("postgresql://db/shop")' in lesson("postgresql://db/shop", "windlass").program
    export = lesson("postgresql://shop:hunter2@db/shop", "bakery").export
    assert export is not None
    assert export.endswith(" WINDLASS_SCHEMA=bakery")


@pytest.mark.parametrize("url", ["postgresql://shop:hunter2@db/shop", "postgresql://db/shop?password=hunter2"])
def test_the_first_page_tells_no_password(url: str) -> None:
    found = lesson(url, "windlass")
    assert "hunter2" not in found.program
    assert found.export is not None
    assert found.export.startswith("export WINDLASS_URL=")
    assert "hunter2" not in found.export


@on_a_desk
async def test_what_nobody_else_reaches_is_not_taught_to_others(desk: Desk, client: httpx2.AsyncClient) -> None:
    page = (await client.get("/jobs")).text
    assert "This store is in memory" in page
    assert "windlass worker" not in page


@on_a_desk
async def test_a_mistyped_filter_stands_beside_the_list_and_can_be_mended(desk: Desk, client: httpx2.AsyncClient) -> None:
    ids = await stage(desk)
    for asked, kept in (
        ({"f": "color:red"}, "color:red"), ({"f": "state:dread"}, "state:dread"), ({"created": "soon"}, "created:soon"),
        ({"state": "dread"}, "state:dread"), ({"f": f"x{EVIL}:1"}, f"x{EVIL}:1"),
    ):  # fmt: skip
        page = await client.get("/jobs", params=asked)
        assert page.status_code == 422, asked
        assert f'value="{html.escape(kept, quote=True).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")}"' in page.text
        assert 'role="alert"' in page.text
        assert f"/jobs/{ids.ready}" in page.text, "the list is still there"


@on_a_desk
async def test_a_state_can_be_typed_like_any_other_filter(desk: Desk, client: httpx2.AsyncClient) -> None:
    for typed, meant in (("state:dead", "dead"), ("State: Ready", "queued"), ("state:queued", "queued")):
        answer = await client.get("/jobs", params={"f": typed, "queue": "mail"})
        assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs?state={meant}&queue=mail")


@on_a_desk
async def test_a_page_shows_the_key_of_one_search_field_only(desk: Desk, client: httpx2.AsyncClient) -> None:
    for path in ("/", "/jobs", "/audit"):
        before = (await client.get(path)).text.partition('<div class="sheet"')[0].partition('id="shortcuts"')[0]
        assert before.count('<kbd aria-hidden="true">/</kbd>') == 1, path


@on_a_desk
async def test_what_a_person_saves_of_a_declared_schedule_is_said_to_stay(
    desk: Desk, client: httpx2.AsyncClient
) -> None:  # fmt: skip
    @desk.app.cron("0 9 * * *")
    async def daily() -> None: ...

    await declare(desk.app.client, desk.app.crons)
    page = (await client.get("/schedules?edit=daily")).text
    assert "declared in code" in page
    assert "stays until the code itself says something else" in page


@on_a_desk
async def test_a_job_that_was_rejected_is_offered_with_other_arguments(desk: Desk, client: httpx2.AsyncClient) -> None:
    """The same again would be rejected again."""

    @desk.app.task
    async def pay(order: int, api_key: str = "") -> None:
        if order < 0:
            raise Reject("there is no such order")

    ids = [(await pay.enqueue(-1)).id, (await pay.enqueue(-1, api_key="hunter2")).id]
    await desk.app.tick()
    page = (await client.get(f"/jobs/{ids[0]}")).text
    assert f'href="/jobs/new?like={ids[0]}"' in page
    assert "will be again" in page
    form = html.unescape((await client.get(f"/jobs/new?like={ids[0]}")).text)
    assert '"order": -1' in form
    assert 'value="pay"' in form
    form = html.unescape((await client.get(f"/jobs/new?like={ids[1]}")).text)
    assert "hunter2" not in form, "nobody asked to see it"
    assert f'href="/jobs/new?like={ids[1]}&reveal=1"' in form
    revealed = html.unescape((await client.get(f"/jobs/new?like={ids[1]}&reveal=1")).text)
    assert '"api_key": "hunter2"' in revealed


@on_a_desk
async def test_a_replay_stands_among_the_runs(desk: Desk, client: httpx2.AsyncClient) -> None:
    ids = await stage(desk)
    before = (await client.get(f"/jobs/{ids.dead}")).text
    assert "Run again by a person" not in before
    await desk.web.state.site.admin(LOCAL).retry(ids.dead)
    page = (await client.get(f"/jobs/{ids.dead}")).text
    assert page.index("Run again by a person") < page.index('<strong class="strong">Run 1</strong>')
    who = f"/audit?action=job.retry&subject=job:{ids.dead}"
    assert who in html.unescape(page)
    for asked in (who, who.replace("job:", ""), f"/audit?subject={ids.dead}"):  # an id is what people have at hand
        told = (await client.get(asked)).text
        assert f'href="/jobs/{ids.dead}"' in told, "it leads back"
        assert "job.retry" in told.split("<tbody>")[1]


@on_a_desk
async def test_who_replayed_many_is_a_step_away_from_one_of_them(desk: Desk, client: httpx2.AsyncClient) -> None:
    """The line of a sweep does not name each of its jobs."""

    @desk.app.task
    async def pay(order: int) -> None:
        raise Reject("there is no such order")

    jobs = [await pay.enqueue(order) for order in range(2)]
    await desk.app.tick()
    await desk.web.state.site.admin(LOCAL).replay(Filter(state="dead"), limit=10)
    told = (await client.get(f"/audit?action=job.retry&subject=job:{jobs[0].id}")).text
    assert "No line is about this alone" in told
    assert 'href="/audit?action=job.retry"' in told
    every = (await client.get("/audit?action=job.retry")).text
    assert "all that matched state=dead" in every
    assert 'href="/jobs/' not in every, "many jobs are no job"


def test_what_is_hidden_is_not_copied_into_a_form() -> None:
    async def main() -> None:
        some = Principal(actor="some", scopes=frozenset({"operate", "enqueue"}))
        desk = Desk(Access(anonymous=some))

        @desk.app.task
        async def pay(order: int, api_key: str = "") -> None: ...

        async with desk.app, desk.client() as client:
            job = await pay.enqueue(7, api_key="hunter2")
            for asked in ("", "&reveal=1"):
                form = html.unescape((await client.get(f"/jobs/new?like={job.id}{asked}")).text)
                assert "hunter2" not in form
                assert '"order"' not in form
                assert "are hidden" in form

    asyncio.run(main())


@on_a_desk
async def test_a_hidden_result_or_header_keeps_no_argument_back(desk: Desk, client: httpx2.AsyncClient) -> None:
    @desk.app.task
    async def sign(order: int) -> Secret[str]:
        return Secret("hunter2")

    asked = [await sign.enqueue(88), await sign.using(headers={"api_key": "hunter2"}).enqueue(88)]
    await desk.app.tick()
    for job, where in zip(asked, ("job-result", "job-facts"), strict=True):
        form = html.unescape((await client.get(f"/jobs/new?like={job.id}")).text)
        assert '"order": 88' in form
        assert "are hidden" not in form
        page = (await client.get(f"/jobs/{job.id}")).text
        told = [card for card in page.split("<section ")[1:] if "parts are hidden" in card]
        assert any(f'id="{where}"' in card for card in told)
        assert not any('aria-labelledby="h-pay"' in card for card in told)


@on_a_desk
async def test_what_nobody_may_see_is_not_offered_twice(desk: Desk, client: httpx2.AsyncClient) -> None:
    @desk.app.task
    async def pay(card: Secret[str]) -> None: ...

    job = await pay.enqueue(Secret("4111"))
    assert "reveal=1" in (await client.get(f"/jobs/new?like={job.id}")).text
    again = (await client.get(f"/jobs/new?like={job.id}&reveal=1")).text
    assert "are hidden" in html.unescape(again)
    assert "reveal=1" not in again, "it leads to this page"
