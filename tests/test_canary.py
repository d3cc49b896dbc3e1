"""A canary goes through everything that shows something: as a secret argument, under a telling name, as a name that a task
hides, in an error, in logs, in the URL of the store. It comes out nowhere but in the handler."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.conftest import Cli, cli  # noqa: F401
from windlass import Context, Reject, Retry, Secret, Windlass
from windlass.admin import Admin, Filter
from windlass.admin.dead_letters import ErrorGroup, scrubbed
from windlass.clock import moment

CANARY = "kanarie-4711"
STORES = ("memory", "sqlite", "postgres")
seen: list[str] = []


def aviary(url: str) -> Windlass:
    app = Windlass(url)

    @app.task(retry=Retry(max_retries=0), redact=("iban",), context=True)
    async def leak(ctx: Context, key: Secret[str], iban: str, password: str, how: str) -> dict[str, str]:
        seen.append(key.reveal())
        ctx.log("with %s", key.reveal())
        ctx.progress(0.5, f"half way with {iban}")
        logging.getLogger("app").warning("password is %s", password)
        if how == "raise":
            raise ValueError(f"refused: {key.reveal()} {iban!r} {password}")
        if how == "reject":
            raise Reject(f"no {key.reveal()}")
        return {"iban": iban, "password": password, "shown": str(key), "echo": f"{key.reveal()} and {[password]}"}

    @app.task
    async def whole() -> Secret[str]:
        return Secret(CANARY)

    @app.task(run="thread", retry=Retry(max_retries=0))
    def threaded(key: Secret[str]) -> None:
        raise RuntimeError(f"thread says {key.reveal()}")

    return app


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("fresh_database"))
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


def test_a_canary_is_in_no_view_no_log_and_no_error(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    seen.clear()
    told: dict[str, Any] = {}

    async def story() -> None:
        app = aviary(url)
        leak, whole, threaded = (app.tasks[name] for name in ("leak", "whole", "threaded"))
        jobs = {
            how: await leak.using(dedupe=True, headers={"Authorization": f"Bearer {CANARY}"}).enqueue(
                Secret(CANARY), CANARY, CANARY, how
            )
            for how in ("return", "raise", "reject")
        }
        jobs["stopped"] = await leak.enqueue(Secret(CANARY), "", "", "return")
        await app.admin.cancel(jobs["stopped"].id, f"somebody wrote {CANARY} here")
        jobs["whole"], jobs["thread"] = await whole.enqueue(), await threaded.enqueue(Secret(CANARY))
        await app.templates.put("t", "leak", {"key": Secret(CANARY), "iban": CANARY, "password": CANARY, "how": "return"})
        await app.schedules.put("s", "t", "0 9 * * *", params={"iban": CANARY, "password": CANARY})
        await app.worker().run(drain=True)
        admin = app.admin
        for name, job in jobs.items():
            told[name] = [
                await admin.job(job.id),
                await admin.logs(job.id),
                await admin.why(job.id),
                [line async for line in admin.follow_logs(job.id)],
            ]
        told["reveal"] = [(await admin.job(jobs[how].id, reveal=True)).job.result for how in ("whole", "return")]
        told["lists"] = [await admin.jobs(), await admin.dead_letters(Filter()), await admin.errors(Filter())]
        told["schedules"] = [await admin.scheduled(), admin_templates(await app.templates.list())]
        for how in ("raise", "thread"):
            with pytest.raises(Exception, match="dead") as dead:
                await jobs[how].result()
            told[f"dead {how}"] = str(dead.value)
        told["reprs"] = [repr(jobs), repr(admin), repr(app.tasks)]
        assert (await jobs["whole"].result()) == Secret(CANARY)
        await app.close()

    asyncio.run(story())
    assert seen == [CANARY] * 3, "the handler gets it"
    for name, value in told.items():
        assert CANARY not in msgspec.json.encode(value, enc_hook=repr).decode(), name
    ours = [record for record in caplog.records if record.name.startswith("windlass")]
    assert len([record for record in ours if "is dead" in record.getMessage()]) == 3
    for record in ours:
        assert CANARY not in f"{record.getMessage()} {record.exc_text}"
    assert told["return"][0].job.redacted is True
    assert told["return"][0].job.payload == {"key": "***", "iban": "***", "password": "***", "how": "return"}
    assert told["return"][0].job.result["echo"] == "*** and ['***']"
    assert told["raise"][0].runs[0].error == "ValueError: refused: *** '***' ***"


def admin_templates(rows: Any) -> Any:
    from windlass.admin.schedules import template_view

    return [template_view(row) for row in rows]


def test_the_error_of_a_group_is_clean_though_its_example_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        app = aviary("memory://")

        async def nobody(ids: Any) -> list[None]:
            return [None] * len(ids)

        monkeypatch.setattr(app.client.driver, "get", nobody)
        group = ErrorGroup(
            fingerprint="f", error=f"RuntimeError: password={CANARY}", jobs=1, types=(), queues=(), example="gone",
            first_at=moment(0), last_at=moment(0),
        )  # fmt: skip
        [told] = await scrubbed(app.client, (group,))
        assert told.error == "RuntimeError: password=***"
        await app.close()

    asyncio.run(story())


def test_who_may_see_payloads_sees_all_but_what_the_task_hides() -> None:
    async def story() -> None:
        app = aviary("memory://")
        job = await app.tasks["leak"].enqueue(Secret(CANARY), CANARY, "visible", "return")
        view = (await Admin(app.client).job(job.id, reveal=True)).job
        assert view.payload == {"key": "***", "iban": "***", "password": "visible", "how": "return"}
        assert view.redacted is True
        plain = await app.tasks["whole"].enqueue()
        assert (await app.admin.job(plain.id)).job.redacted is False
        await app.close()

    asyncio.run(story())


PROGRAM = f"""
from windlass import Retry, Secret, Windlass

app = Windlass()

@app.task(retry=Retry(max_retries=0))
async def leak(key: Secret[str], password: str) -> str:
    raise ValueError(f"refused {{key.reveal()}}")

@app.task(run="process", retry=Retry(max_retries=0))
def apart(key: Secret[str]) -> str:
    import logging
    logging.getLogger("x").error("in a process: %s", key.reveal())
    raise ValueError(f"apart {{key.reveal()}}")

shell = app.command("shell", ["{sys.executable}", "-c", "import sys; print(sys.argv[1]); sys.exit(3)", "{{key}}"],
                    redact=("key",), retry=Retry(max_retries=0))

halves = app.command("halves", ["{sys.executable}", "-c", "import os, sys, time; key = sys.argv[1].encode()\\n"
                     "for part in (b'it is ', key[:5], key[5:], b', ', key[:7]): os.write(1, part); time.sleep(0.1)",
                     "{{key}}"],
                     redact=("key",), retry=Retry(max_retries=0))

def fill():
    halves.enqueue_sync(key="{CANARY}")
    leak.enqueue_sync(Secret("{CANARY}"), "{CANARY}")
    apart.enqueue_sync(Secret("{CANARY}"))
    shell.enqueue_sync(key="{CANARY}")
"""


def test_a_canary_is_in_no_output_of_a_command(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "birds.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "-c", "import birds; birds.fill()"], cwd=tmp_path, check=True)
    said = [cli("worker", "birds", "--drain")]
    listed = cli("jobs", "list", "--json").json["jobs"]
    assert sorted(job["state"] for job in listed) == ["dead"] * 3 + ["succeeded"]
    for job in listed:
        for command in ("show", "why", "logs"):
            said += [cli("jobs", command, job["id"]), cli("jobs", command, job["id"], "--json")]
    for words in (["jobs", "list"], ["dlq", "list"], ["dlq", "list", "--by-error"], ["audit"], ["doctor"], ["usage"]):
        said += [cli(*words), cli(*words, "--json")]
    for done in said:
        assert CANARY not in done.out + done.err
    text = "".join(done.out for done in said)
    for phrase in ("refused ***", "apart ***", "in a process: ***"):
        assert phrase in text
    for file in tmp_path.rglob("*.log"):
        assert CANARY not in file.read_text()
    assert f"it is ***, {CANARY[:7]}" in text, "written in two halves, and only begun"


@pytest.mark.parametrize(
    "url", [f"postgresql://ada:{CANARY}@127.0.0.1:1/x", f"postgresql://127.0.0.1:1/x?password={CANARY}", f"sqlyte://ada:{CANARY}@x"]
)  # fmt: skip
def test_the_password_of_a_store_is_told_by_no_command(cli: Cli, url: str) -> None:  # noqa: F811
    for words in (["jobs", "list"], ["doctor"], ["tokens", "list"], ["audit"], ["migrate", "--plan"], ["jobs", "lisst"]):
        for form in ((), ("--json",)):
            done = cli(*words, "--store", url, *form)
            assert CANARY not in done.out + done.err, words
