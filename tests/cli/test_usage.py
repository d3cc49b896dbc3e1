"""`windlass usage`: counted now or by a leader, as a table, as JSON, as CSV, and after the jobs are gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cli.conftest import Cli
from windlass.client import Client
from windlass.clock import SECOND
from windlass.config import Settings
from windlass.core.changes import Ack, Report
from windlass.core.duties import Prune
from windlass.core.usage import LATE
from windlass.drivers.values import Claim
from windlass.types import NewJob


@pytest.fixture
def used(cli: Cli, tmp_path: Path) -> Cli:
    """Two runs of an org with an evil type ended a while ago; nobody has counted them."""

    async def main() -> None:
        client = Client(f"sqlite:///{tmp_path}/windlass.db", Settings())
        driver, now = client.driver, client.now() - 10 * LATE
        for n in range(2):
            await driver.enqueue([NewJob(id=f"j{n}", type="=evil()", org_id="acme")], now=now)
            wish = Claim(queues=("default",), limit=1, lease_for=60 * SECOND, worker_id="w", token=f"t{n}")
            [job] = await driver.claim(wish, now=now)
            done = Ack(
                handle=job.handle, token=job.token, at=now + SECOND, report=Report(cpu_us=SECOND // 4, peak_rss=5 * 2**20)
            )
            assert await driver.settle([done], now=now) == ["applied"]
        await client.close()

    asyncio.run(main())
    return cli


def test_usage_is_counted_on_demand_and_shown(used: Cli) -> None:
    done = used("usage")
    assert (done.code, done.out) == (0, "")
    assert "--count does it now" in done.err
    done = used("usage", "--count", "--by", "org", "--by", "type", "--step", "all")
    assert done.out.split("\n")[1].split() == ["acme", "=evil()", "2", "-", "2", "s", "500", "ms", "5", "MiB"]
    assert "counted up to" in done.err
    [row] = used("usage", "--step", "hour", "--org", "acme", "--json").json["rows"]
    assert (row["runs"], row["ran"], row["cpu"], row["peak_rss"], row["org"]) == (2, 2.0, 0.5, 5 * 2**20, None)
    assert used("usage", "--org", "nobody").err == "nothing was counted\n"


def test_usage_for_a_spreadsheet_holds_no_formula(used: Cli) -> None:
    done = used("usage", "--count", "--by", "type", "--step", "all", "--csv")
    assert done.out.splitlines() == ["type,runs,waited,ran,cpu,peak_rss", "'=evil(),2,0.000000,2.000000,0.500000,5242880"]


def test_usage_outlives_its_jobs(used: Cli, tmp_path: Path) -> None:
    before = used("usage", "--count", "--by", "type", "--json").json["rows"]

    async def prune() -> None:
        client = Client(f"sqlite:///{tmp_path}/windlass.db", Settings())
        done = await client.driver.maintain(Prune(succeeded=0), epoch=None, now=client.now())
        assert done is not None
        assert done.rows == 2
        await client.close()

    asyncio.run(prune())
    assert used("jobs", "list", "--json").json["jobs"] == []
    assert used("usage", "--count", "--by", "type", "--json").json["rows"] == before != []


def test_what_is_wrong_with_a_question_is_said(used: Cli) -> None:
    for words in (("--step", "week"), ("--by", "orgs"), ("--limit", "0"), ("--since", "soon")):
        assert used("usage", *words).code == 2
