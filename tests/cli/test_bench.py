"""`windlass bench`: every part on every store, nobody's jobs touched, nothing left behind however it ends."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from cli.conftest import Cli
from windlass.bench.parts import percentile

PARTS = ["enqueue_one", "enqueue_one_10", "enqueue_many", "drain_async", "drain_thread", "pick_up"]


def schemas(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute("select nspname from pg_namespace where nspname like 'windlass%' order by 1").fetchall()
    return [name for (name,) in found]


def until(reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.01)


@pytest.mark.parametrize("store", ["none named", "memory", "postgresql"])
def test_every_part_is_measured_on_every_store(
    cli: Cli, store: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that the environment names is not loaded by mistake."""
    monkeypatch.setenv("WINDLASS_URL", "postgresql://nobody@127.0.0.1:1/nowhere")
    url = str(request.getfixturevalue("fresh_database")) if store == "postgresql" else f"{store}://"
    done = cli("bench", *([] if store == "none named" else [url]), "--jobs", "50", "--json")
    assert done.code == 0, done.err
    assert [one["name"] for one in done.json["parts"]] == PARTS
    for one in done.json["parts"]:
        numbers = [one[name] for name in ("per_second", "p50_ms") if one[name] is not None]
        assert len(numbers) == 1, "a rate or a wait"
        assert all(math.isfinite(number) and number > 0 for number in numbers)
    if store == "postgresql":
        assert schemas(url) == [], "its schema is gone"


def test_jobs_that_are_there_are_not_touched_and_no_file_is_left(
    cli: Cli, enqueue: Callable[..., str], tmp_path: Path
) -> None:
    enqueue("hello", "name=Ada")
    before = sorted(path.name for path in tmp_path.iterdir())
    done = cli("bench", f"sqlite:///{tmp_path / 'windlass.db'}", "--jobs", "20")
    assert done.code == 0, done.err
    assert str(tmp_path) in done.err, "the disk that was named"
    assert "drain, async handlers" in done.out
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    [job] = cli("jobs", "list", "--json").json["jobs"]
    assert job["label"] == "queued"


@pytest.mark.parametrize(
    ("tokens", "code", "told"),
    [
        (["--jobs", "5"], 2, "must be between 10"),
        (["mysql://me:s3cret@host/x"], 2, "mysql"),
        (["sqlite:////no/such/place/x.db"], 4, "there is no directory /no/such/place"),
        (["postgresql://me:s3cret@127.0.0.1:1/x"], 4, "127.0.0.1"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_words(cli: Cli, tokens: list[str], code: int, told: str) -> None:
    done = cli("bench", *tokens)
    assert (done.code, done.out) == (code, "")
    assert told in done.err
    assert "s3cret" not in done.err


def test_it_cleans_up_when_it_is_interrupted(fresh_database: str) -> None:
    command = [sys.executable, "-m", "windlass", "bench", fresh_database, "--jobs", "1000000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: schemas(fresh_database))
        process.terminate()
        assert process.wait(30) == 130
    assert schemas(fresh_database) == []


def test_a_percentile_is_one_that_so_many_do_not_exceed() -> None:
    assert [percentile(range(1, 101), percent) for percent in (1, 50, 99, 100)] == [1, 50, 99, 100]
    assert percentile([7.0], 50) == 7.0
