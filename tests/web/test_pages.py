"""Every page, in process: it is there, it is well made, and no name breaks out of it."""

from __future__ import annotations

import asyncio
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from web.conftest import Desk, on_a_desk
from web.staged import BIG, EVIL, paths, stage
from windlass import Retry
from windlass.principal import Principal
from windlass.web.access import Access
from windlass.web.rendering import HERE

VOID = set("area base br col embed hr img input link meta source track wbr".split())


class Outline(HTMLParser):
    """What a page is made of. Fails on tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.scripts: list[str | None] = []
        self.ids: list[str] = []
        self.headings: list[str] = []
        self.bad: list[str] = []
        self.feed(text)
        assert self.open == [], self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if tag == "script":
            self.scripts.append(said.get("src"))
        if said.get("id"):
            self.ids.append(said["id"] or "")
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(tag)
        self.bad += [f"{tag} {name}" for name in said if name == "style" or name.startswith("on")]
        if tag == "th" and "scope" not in said:
            self.bad.append("th without scope")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """As SVG closes what holds nothing."""
        before = list(self.open)
        self.handle_starttag(tag, attrs)
        self.open = before

    def handle_endtag(self, tag: str) -> None:
        while tag != "option" and self.open[-1:] == ["option"]:  # those of a datalist need no end
            self.open.pop()
        assert self.open, tag
        assert self.open[-1] == tag, (self.open[-5:], tag, self.getpos())
        self.open.pop()


def check(path: str, text: str) -> None:
    assert "<script>alert" not in text, path
    page = Outline(text)
    assert page.scripts == ["/static/app.js"], path
    assert page.bad == [], path
    doubled = {one for one in page.ids if page.ids.count(one) > 1}
    assert doubled == set(), (path, doubled)
    assert page.headings.count("h1") == 1, path
    assert text.count("<caption") == text.count("<table"), path


@on_a_desk
async def test_every_page_is_well_made_and_no_name_breaks_out_of_it(desk: Desk, client: httpx2.AsyncClient) -> None:
    ids = await stage(desk)
    for path in paths(ids):
        answer = await client.get(path)
        assert answer.status_code == 200, (path, answer.text[-300:])
        check(path, answer.text)


@on_a_desk
async def test_every_page_teaches_when_there_is_nothing_yet(desk: Desk, client: httpx2.AsyncClient) -> None:
    words = {
        "/": "store is in memory", "/jobs": "store is in memory", "/dead-letters": "windlass dlq list",
        "/groups": "app.group(", "/schedules": "@app.cron(", "/templates": "windlass templates put",
        "/queues": "windlass limits set", "/workers": "windlass worker tasks:app", "/holds": "app.hold",
        "/tokens": "windlass tokens create", "/usage": "windlass usage --count", "/audit": "windlass audit",
        "/webhooks": "windlass webhooks create",
    }  # fmt: skip
    for path, teaches in words.items():
        answer = await client.get(path)
        assert answer.status_code == 200, path
        assert teaches in answer.text, path
        check(path, answer.text)


def test_commands_that_pages_teach_are_there_with_their_options() -> None:
    """What is taught is typed: each is in the reference, which is made of the commands themselves."""
    reference = (Path(__file__).parent.parent.parent / "docs" / "reference" / "cli.md").read_text()
    texts = {path.name: path.read_text() for path in (HERE / "templates").rglob("*.html")}
    taught = [
        (name, found)
        for name, text in texts.items()
        for found in re.findall(r"[\"'>](windlass [a-z]+[^\"'<]*)[\"'<]", text)
    ]
    assert len(taught) >= 12
    for name, command in taught:
        words = command.split()
        heading = next((f"## {' '.join(words[:n])}\n" for n in (3, 2) if f"## {' '.join(words[:n])}\n" in reference), None)
        assert heading is not None, (name, command)
        section = reference.split(heading)[1].split("\n## ")[0]
        assert [word for word in words if word.startswith("--") and f"{word}" not in section] == [], (name, command)


@on_a_desk
async def test_a_payload_is_shown_exactly(desk: Desk, client: httpx2.AsyncClient) -> None:
    ids = await stage(desk)
    assert str(BIG) in (await client.get(f"/jobs/{ids.done}")).text


@on_a_desk
async def test_what_is_not_there_is_told_by_a_page(desk: Desk, client: httpx2.AsyncClient) -> None:
    for path in ("/jobs/none", "/groups/none", "/templates/none", "/webhooks/none"):
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8"), path
        assert "correlation id" in answer.text
        check(path, answer.text)
    assert "Look for it" in (await client.get("/jobs/none")).text
    assert (await client.get("/queues/none")).status_code == 422


async def form_token(client: httpx2.AsyncClient) -> str:
    found = re.search(r'name="csrf" content="([0-9a-f]+)"', (await client.get("/settings")).text)
    assert found is not None
    return found[1]


@on_a_desk
async def test_an_action_asks_first_and_says_what_it_did(desk: Desk, client: httpx2.AsyncClient) -> None:
    ids = await stage(desk)
    csrf = await form_token(client)
    asked = await client.post(f"/jobs/{ids.ready}/cancel", data={"csrf": csrf})
    assert asked.status_code == 200
    assert "Cancel this job?" in asked.text
    check("ask", asked.text)
    assert (await client.get(f"/api/jobs/{ids.ready}")).json()["job"]["state"] == "queued"
    done = await client.post(f"/jobs/{ids.ready}/cancel", data={"csrf": csrf, "sure": "1"})
    assert (done.status_code, done.headers["location"]) == (303, f"/jobs/{ids.ready}?done=cancelled")
    assert 'role="status" aria-live="polite">Cancelled<' in (await client.get(done.headers["location"])).text
    assert (await client.get(f"/api/jobs/{ids.ready}")).json()["job"]["state"] == "cancelled"


@on_a_desk
async def test_an_address_cannot_put_words_into_our_mouth(desk: Desk, client: httpx2.AsyncClient) -> None:
    answer = await client.get("/jobs", params={"done": "Your session is over, call 555"})
    assert "555" not in answer.text


@on_a_desk
async def test_many_jobs_are_counted_by_the_store_before_they_are_changed(desk: Desk, client: httpx2.AsyncClient) -> None:
    ids = await stage(desk)
    csrf = await form_token(client)
    said = {"csrf": csrf, "action": "cancel", "every": "1", "state": "", "queue": EVIL}
    asked = await client.post("/jobs/bulk", data=said)
    assert "Cancel 5 jobs?" in asked.text
    done = await client.post("/jobs/bulk", data={**said, "sure": "1"})
    assert "done=bulk" in done.headers["location"]
    assert "n=5" in done.headers["location"]
    again = await client.post(
        "/jobs/bulk", data={"csrf": csrf, "action": "retry", "ids": [ids.dead, ids.done], "sure": "1"}
    )
    assert "n=1" in again.headers["location"], "what succeeded is not run again"


@on_a_desk
async def test_dead_letters_are_counted_before_all_that_match_are_decided_about(
    desk: Desk, client: httpx2.AsyncClient
) -> None:
    ids = await stage(desk)
    csrf = await form_token(client)
    page = (await client.get("/dead-letters")).text
    assert "Replay all 1…" in page
    assert "Purge all 1…" in page
    for path in ("/dead-letters/replay", "/dead-letters/purge"):
        asked = await client.post(path, data={"csrf": csrf, "by": "error", "queue": EVIL, "every": "1"})
        assert f"{'Replay' if path.endswith('replay') else 'Purge'} 1 job?" in asked.text
        check(path, asked.text)
        other = await client.post(path, data={"csrf": csrf, "queue": "plain", "every": "1"})
        assert (other.status_code, "somebody else has decided" in other.text) == (404, True)
        assert (
            await client.post(path, data={"csrf": csrf, "queue": "plain", "every": "1", "sure": "1"})
        ).status_code == 303
    assert (await client.get(f"/api/jobs/{ids.dead}")).json()["job"]["state"] == "dead"
    done = await client.post("/dead-letters/replay", data={"csrf": csrf, "error": EVIL[:9], "sure": "1"})
    assert "done=replayed&n=1" in done.headers["location"]
    assert (await client.get(f"/api/jobs/{ids.dead}")).json()["job"]["state"] == "queued"


@on_a_desk
async def test_a_filter_that_is_typed_becomes_an_address(desk: Desk, client: httpx2.AsyncClient) -> None:
    ids = await stage(desk)
    answer = await client.get("/jobs", params={"f": f"queue:{EVIL}", "state": "dead"})
    assert answer.headers["location"] == f"/jobs?state=dead&queue={quote(EVIL, safe='').replace('%20', '+')}"
    assert (await client.get("/jobs", params={"f": "color:red"})).status_code == 422
    assert (await client.get("/jobs", params={"q": ids.dead})).headers["location"] == f"/jobs/{ids.dead}"
    assert (await client.get("/jobs", params={"q": "plain"})).headers["location"] == "/queues/plain"


@on_a_desk
async def test_theme_and_zone_are_remembered_by_cookies(desk: Desk, client: httpx2.AsyncClient) -> None:
    ids = await stage(desk)
    csrf = await form_token(client)
    saved = await client.post("/settings/appearance", data={"csrf": csrf, "theme": "dark", "zone": "Asia/Tokyo"})
    assert [cookie.count("Max-Age=31536000") for cookie in saved.headers.get_list("set-cookie")] == [1, 1]
    page = (await client.get(f"/jobs/{ids.dead}")).text
    assert 'data-theme="dark"' in page
    assert "Asia/Tokyo" in page
    await client.post("/settings/appearance", data={"csrf": csrf, "theme": "system", "zone": ""})
    page = (await client.get(f"/jobs/{ids.dead}")).text
    assert "data-theme" not in page.split("<head>")[0]
    assert "UTC" in page


@on_a_desk
async def test_a_schedule_is_previewed_saved_and_changed(desk: Desk, client: httpx2.AsyncClient) -> None:
    await stage(desk)
    csrf = await form_token(client)
    part = await client.get("/schedules/preview", params={"cron": "30 2 * * *", "tz": "Europe/Berlin"})
    assert "At 02:30 every day" in part.text
    assert part.text.count("<li>") == 5
    assert "bad" in (await client.get("/schedules/preview", params={"cron": "nonsense", "tz": "UTC"})).text
    said = {"csrf": csrf, "name": "nightly", "template": "plain", "cron": "0 3 * * *", "tz": "UTC", "was": ""}
    looked = await client.post("/schedules/save", data={**said, "preview": "1"})
    assert "At 03:00 every day" in looked.text
    assert "nightly" not in {one["name"] for one in (await client.get("/api/schedules")).json()["schedules"]}
    assert (await client.post("/schedules/save", data=said)).status_code == 303
    wrong = await client.post("/schedules/save", data={**said, "was": "nightly", "cron": "61 * * * *"})
    assert wrong.status_code == 422
    assert 'role="alert"' in wrong.text
    check("wrong", wrong.text)
    await client.post("/schedules/save", data={**said, "was": "nightly", "cron": "every 10m", "params": '{"n": 7}'})
    [made] = [one for one in (await client.get("/api/schedules")).json()["schedules"] if one["name"] == "nightly"]
    assert (made["cron_expression"], made["param_overrides"]) == ("every 10m", {"n": 7})


@on_a_desk
async def test_an_argument_that_is_changed_in_its_kind_alone_is_changed(desk: Desk, client: httpx2.AsyncClient) -> None:
    @desk.app.task
    async def switch(on: object) -> None: ...

    await desk.app.templates.put("plain", "switch", {"on": 0})
    said = {"csrf": await form_token(client), "name": "nightly", "template": "plain", "cron": "0 3 * * *", "tz": "UTC"}
    await client.post("/schedules/save", data={**said, "params": '{"on": 2}'})
    for params in ('{"on": true}', '{"on": 1}', '{"on": 1.0}'):  # which are one and the same to Python
        assert (await client.post("/schedules/save", data={**said, "was": "nightly", "params": params})).status_code == 303
        [made] = (await client.get("/api/schedules")).json()["schedules"]
        assert json.dumps(made["param_overrides"]) == params


@on_a_desk
async def test_arguments_that_are_nested_too_deeply_are_refused_in_the_form(desk: Desk, client: httpx2.AsyncClient) -> None:
    csrf = await form_token(client)
    for path, said in (
        ("/jobs/new", {"type": "add"}), ("/templates/save", {"name": "x", "task": "add"}),
        ("/schedules/save", {"name": "x", "template": "add", "cron": "0 3 * * *"}),
    ):  # fmt: skip
        for depth in (700, 20_000):
            nested = '{"a": ' + "[" * depth + "]" * depth + "}"
            answer = await client.post(path, data={"csrf": csrf, **said, "params": nested})
            assert (answer.status_code, "nested" in answer.text) == (422, True)


@on_a_desk
async def test_a_secret_of_a_schedule_outlives_a_change_of_its_time(desk: Desk, client: httpx2.AsyncClient) -> None:
    """It is not shown in the form, and the form must not put what is shown in its place."""

    @desk.app.task
    async def login(user: str, password: str) -> None: ...

    await desk.app.templates.put("in", "login", {"user": "ada", "password": "default"})
    await desk.app.schedules.put("nightly", "in", "0 9 * * *", params={"user": "eve", "password": "hunter2"})
    csrf = await form_token(client)
    edited = await client.get("/schedules?edit=nightly")
    shown = html.unescape(re.findall(r"<textarea[^>]*name=\"params\"[^>]*>(.*?)</textarea>", edited.text, re.S)[0])
    assert ("hunter2" in shown, "***" in shown) == (False, True)
    form = {"csrf": csrf, "was": "nightly", "template": "in", "cron": "30 10 * * *", "params": shown}
    assert (await client.post("/schedules/save", data=form)).status_code == 303
    job = await desk.app.schedules.run("nightly")
    kept = (await desk.app.admin.job(job.id, reveal=True)).job.payload
    assert kept == {"user": "eve", "password": "hunter2"}
    other = await client.post("/schedules/save", data={**form, "params": shown.replace("eve", "bob")})
    assert (other.status_code, "holds ***" in other.text) == (422, True)
    for path, body in (
        ("/api/schedules/nightly", {"params": {"password": "***"}}),
        ("/api/templates/in", {"task": "login", "params": {"user": "x", "password": "***"}}),
    ):
        method = "PATCH" if "schedules" in path else "PUT"
        answer = await client.request(method, path, json=body, headers={"X-CSRF-Token": csrf})
        assert (answer.status_code, answer.json()["field"]) == (422, "params")
    [view] = (await client.get("/api/schedules")).json()["schedules"]
    assert view["cron_expression"] == "30 10 * * *"
    emptied = await client.post("/schedules/save", data={**form, "params": ""})
    assert emptied.status_code == 303
    again = await desk.app.schedules.run("nightly")
    assert (await desk.app.admin.job(again.id, reveal=True)).job.payload == {"user": "ada", "password": "default"}


@on_a_desk
async def test_a_selection_of_nothing_is_not_everything(desk: Desk, client: httpx2.AsyncClient) -> None:
    ids = await stage(desk)
    csrf = await form_token(client)
    for path in ("/dead-letters/purge", "/dead-letters/replay"):
        for said in ({}, {"by": "list", "span": "", "queue": ""}, {"by": "error", "few": "1", "queue": "default"}):
            for sure in ({}, {"sure": "1"}):
                answer = await client.post(path, data={"csrf": csrf, **said, **sure})
                assert (answer.status_code, "No job is selected" in answer.text) == (422, True)
    assert (await desk.app.job(ids.dead).fetch()).state == "dead"
    chosen = await client.post("/dead-letters/purge", data={"csrf": csrf, "ids": ids.dead, "sure": "1"})
    assert chosen.headers["location"] == "/dead-letters?done=purged&n=1"


async def broken(text: str) -> None:
    raise ValueError(text)


@on_a_desk
async def test_a_group_of_dead_letters_is_no_more_than_what_is_shown_of_it(desk: Desk, client: httpx2.AsyncClient) -> None:
    """Narrowed to one error: others of that type, or that differ in what they quote, are not in sight."""
    fail = desk.app.task(retry=Retry(max_retries=0))(broken)
    others = [await fail.enqueue("timed out for 'bob'"), await fail.enqueue("no such column")]
    for by in ("type", "error"):
        job = await fail.enqueue("timed out for 'ada'")
        await desk.app.tick()
        page = (await client.get("/dead-letters", params={"by": by, "error": "ValueError: timed out for 'ada'"})).text
        assert page.count('aria-label="Select job ') == 1
        forms = re.findall(r'<form method="post" action="/dead-letters/purge">(.*?)</form>', page)
        [form] = [form for form in forms if "data-confirm" in form]
        assert "Purge 1 job?" in form
        fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', html.unescape(form)))
        done = await client.post("/dead-letters/purge", data={**fields, "sure": "1"})
        assert "done=purged&n=1" in done.headers["location"]
        assert [(await desk.app.job(other.id).fetch()).state for other in others] == ["dead", "dead"]
        assert (await client.get(f"/api/jobs/{job.id}")).status_code == 404


@on_a_desk
async def test_a_group_of_errors_is_decided_about_as_it_is_counted(desk: Desk, client: httpx2.AsyncClient) -> None:
    fail = desk.app.task(retry=Retry(max_retries=0))(broken)
    await desk.app.enqueue_many(fail.job(f"no user '{name}'") for name in ("ada", "bob", "eve"))
    await desk.app.tick()
    [group] = (await client.get("/api/dlq/errors")).json()["groups"]
    which = {"fingerprint": group["fingerprint"]}
    await fail.enqueue(f"as {group['fingerprint']} said")  # an error that holds the name of another
    await desk.app.tick()
    [counted] = (await client.get("/api/dlq/errors", params={**which, "error": "'ada'"})).json()["groups"]
    purged = (await client.post("/api/dlq/purge", json={"filter": {**which, "error": "'ada'"}})).json()
    assert len(purged["done"]) == counted["jobs"] == 1
    assert len((await client.post("/api/dlq/replay", json={"filter": which})).json()["done"]) == 2


@on_a_desk
async def test_what_is_asked_about_a_retry_is_what_it_does(desk: Desk, client: httpx2.AsyncClient) -> None:
    ids = await stage(desk)
    csrf = await form_token(client)
    stopped = await desk.add.enqueue(1, 2)
    await stopped.cancel()
    asked = await client.post("/jobs/bulk", data={"csrf": csrf, "action": "retry", "ids": [ids.dead, stopped.id]})
    assert "Retry 1 job?" in asked.text
    assert "ancelled" not in asked.text.partition("<main")[2].partition("</main>")[0]


@pytest.mark.parametrize("narrow", [False, True])
def test_a_reader_sees_no_buttons_that_change_things(narrow: bool) -> None:
    async def main() -> None:
        reader = Principal(actor="reader", scopes=frozenset({"read"}), org_id=EVIL if narrow else None)
        desk = Desk(Access(anonymous=reader))
        async with desk.app, desk.client() as client:
            ids = await stage(desk)
            for path in ["/jobs", f"/jobs/{ids.dead}", "/settings"] if narrow else paths(ids):
                answer = await client.get(path)
                if answer.status_code == 403:
                    assert re.match(r"/(jobs/new|tokens|audit|webhooks)\b", path), path
                    continue
                assert answer.status_code == 200, path
                forms = set(re.findall(r'<form[^>]*action="([^"]+)"', answer.text))
                assert forms <= {"/sign-out", "/sign-in", "/settings/appearance", "/schedules/save", "/jobs", "/audit"}, (
                    path,
                    forms,
                )
                assert "Save schedule" not in answer.text

    asyncio.run(main())
