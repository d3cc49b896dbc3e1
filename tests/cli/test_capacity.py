"""`queues list|capacity|show` say whether a queue drains: in a table, in words and as JSON."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from busy import busy
from cli.conftest import Cli
from windlass.client import Client
from windlass.config import Settings


@pytest.fixture
def growing(tmp_path: Path, cli: Cli) -> None:
    async def fill() -> None:
        client = Client(f"sqlite:///{tmp_path}/windlass.db", Settings())
        await busy(client.driver, client.now(), come=120, end=60)
        await client.close()

    asyncio.run(fill())


@pytest.mark.usefixtures("growing")
def test_the_table_says_when_a_queue_drains_and_what_it_needs(cli: Cli) -> None:
    header, mail = cli("queues", "list").out.splitlines()
    assert header.split() == ["QUEUE", "QUEUED", "RUNNING", "DEAD", "CLAIMS", "DRAINS", "NEEDS", "PRESET"]
    assert mail.split() == "mail 300 0 0 open never, 1/s short 3 workers, has 1".split()
    assert "10 workers, has 1" in cli("queues", "list", "--within", "40s").out


@pytest.mark.usefixtures("growing")
def test_the_answer_in_words_says_what_it_rests_on(cli: Cli) -> None:
    told = cli("queues", "capacity", "mail", "--within", "1h").out
    assert told.startswith("mail  does not drain: arrivals exceed what is finished by 1/s\n")
    for line in (
        "waiting    300 jobs", "arrivals   2/s, 2/s in the middling minute", "finished   1/s",
        "possible   1/s, as seen while jobs waited", "to drain within 1 h: 3 workers", "rests on   5 samples, the last ",
    ):  # fmt: skip
        assert line in told
    assert cli("queues", "capacity").out.split("the last")[0] == cli("queues", "capacity", "mail").out.split("the last")[0]
    assert "does not drain: arrivals exceed" in cli("queues", "show", "mail").err


@pytest.mark.usefixtures("growing")
def test_the_answer_as_json(cli: Cli) -> None:
    for command in (["queues", "list"], ["queues", "capacity"], ["queues", "capacity", "mail"]):
        [mail] = cli(*command, "--within", "5m", "--json").json["queues"]
        found = mail["capacity"]
        assert (mail["name"], mail["counts"]["queued"], found["verdict"], found["short"]) == ("mail", 300, "grows", 1.0)
        assert (found["keep_up"]["workers"], found["within"]["rate"]) == (3, 3.0)


@pytest.mark.usefixtures("growing")
def test_what_is_not_there_is_refused(cli: Cli) -> None:
    assert "mial" in cli("queues", "capacity", "mial").err
    assert cli("queues", "capacity", "mial").code == 2
    assert "within" in cli("queues", "list", "--within", "soon").err
