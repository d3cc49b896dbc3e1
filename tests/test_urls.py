"""A URL means what was meant, or is refused; whatever says it to people says it without its password."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from windlass import Windlass
from windlass.drivers import open_driver
from windlass.drivers.copying import open_end
from windlass.drivers.memory import MemoryDriver
from windlass.errors import UnknownStore
from windlass.runlogs import root_of
from windlass.urls import file_of, url_of_file

NAMES = ["a b.db", "100%.db", "a%20b.db", "what?.db", "one#two.db", "a+b.db", "ä☃.db", "a:b@c.db", "a&b=c;d.db", "tab\t.db"]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_has_a_url(name: str, tmp_path: Path) -> None:
    url = url_of_file(tmp_path / name)
    assert file_of(url) == str(tmp_path / name)
    end = open_end(url)
    assert end.where == url
    end.close()
    assert name in os.listdir(tmp_path)
    app = Windlass(url)
    assert root_of(app.client.settings, app.client.url) == tmp_path / f"{name}-logs"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///jobs.db", "jobs.db"), ("SQLITE:///jobs.db", "jobs.db"), ("sqlite:////var/jobs.db", "/var/jobs.db"),
        ("sqlite:///a b.db", "a b.db"), ("sqlite:///a%20b.db", "a b.db"), ("sqlite:///a%2520b.db", "a%20b.db"),
        ("sqlite:///100%.db", "100%.db"), ("sqlite:///../jobs.db", "../jobs.db"),
    ],
)  # fmt: skip
def test_a_path_is_read_as_it_was_written(url: str, path: str) -> None:
    assert file_of(url) == path


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:jobs.db", "sqlite:/jobs.db", "sqlite://jobs.db", "sqlite://jobs/x.db", "sqlite://", "sqlite:///",
        "sqlite:///jobs.db?mode=ro", "sqlite:///what?.db", "sqlite:///one#two.db", "sqlite:///a%00b.db", "sqlite:///a%ff.db",
        "sqlite:///:memory:", " sqlite:///jobs.db",
    ],
)  # fmt: skip
def test_what_may_mean_two_files_is_refused_and_none_is_made(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownStore, match=r"sqlite:///"):
        open_driver(url)
    assert os.listdir(tmp_path) == []


def test_a_driver_of_ones_own_has_a_url_of_ones_own() -> None:
    assert Windlass("custom://here", driver=MemoryDriver()).client.url == "custom://here"
