"""`windlass groups …` and what `jobs show` tells of those that wait for each other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cli.conftest import Cli
from windlass import Reject, Retry, Windlass


@pytest.fixture
def group_id(cli: Cli, tmp_path: Path) -> str:
    """A sequence of three, of which the second has failed."""
    app = Windlass(f"sqlite:///{tmp_path}/windlass.db")

    @app.task(retry=Retry(max_retries=0))
    async def step(name: str) -> None:
        if name == "load":
            raise Reject("no disk")

    async def main() -> str:
        async with app.group("nightly", mode="sequential") as g:
            for name in ("extract", "load", "report"):
                g.add(step.job(name))
        await app.worker().run(drain=True)
        await app.close()
        return g.id

    return asyncio.run(main())


def test_groups_are_listed_with_what_has_become_of_them(cli: Cli, group_id: str) -> None:
    done = cli("groups", "list")
    assert done.code == 0
    assert group_id in done.out
    assert "partial" in done.out
    assert "1 succeeded, 1 failed, 1 cancelled" in done.out
    [group] = cli("groups", "list", "--json").json["groups"]
    assert (group["id"], group["status"], group["total"]) == (group_id, "partial", 3)


def test_a_store_without_groups_says_how_one_is_made(cli: Cli) -> None:
    cli("enqueue", "--app", "tasks", "hello", "name=ada")
    assert "app.group" in cli("groups", "list").err


def test_a_group_is_shown_with_its_members_in_order(cli: Cli, group_id: str) -> None:
    done = cli("groups", "show", group_id)
    assert "sequential, on failure stop" in done.out
    lines = [line for line in done.out.splitlines() if "  step  " in line]
    assert [line.split()[3] for line in lines] == ["succeeded", "dead", "cancelled"]
    assert "no disk" in done.out
    assert f"groups retry {group_id}" in done.err
    found = cli("groups", "show", group_id, "--json").json
    assert [job["state"] for job in found["members"]] == ["succeeded", "dead", "cancelled"]


def test_a_group_is_retried_and_cancelled(cli: Cli, group_id: str) -> None:
    assert cli("groups", "retry", group_id).out == f"{group_id}: 2 queued again\n"
    assert cli("groups", "show", group_id, "--json").json["group"]["waiting"] == 2
    assert cli("groups", "cancel", group_id, "--reason", "enough", "--json").json["what"] == "cancelled"
    again = cli("groups", "show", group_id, "--json").json
    assert [job["last_error"] for job in again["members"]][1:] == ["enough", "enough"]


def test_what_cannot_be_done_to_a_group_is_refused_with_a_reason(cli: Cli, group_id: str) -> None:
    for command in ("show", "cancel", "retry"):
        missing = cli("groups", command, "nobody")
        assert missing.code == 1
        assert "windlass groups list" in missing.err
    cli("groups", "retry", group_id)
    refused = cli("groups", "retry", group_id)
    assert refused.code == 3
    assert "none of its members has died" in refused.err


def test_a_job_names_those_it_waits_for_and_those_that_wait_for_it(cli: Cli, group_id: str) -> None:
    members = cli("groups", "show", group_id, "--json").json["members"]
    first, second, third = (job["id"] for job in members)
    shown = cli("jobs", "show", second)
    before, after = shown.out.split("Awaited by")
    assert "Waits for" in before
    assert first in before
    assert third in after
    found = cli("jobs", "show", second, "--json").json
    assert [link["id"] for link in found["parents"]] == [first]
    assert [(link["id"], link["state"]) for link in found["dependants"]] == [(third, "cancelled")]
    assert f"groups show {group_id}" in shown.out
