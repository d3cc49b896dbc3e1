"""`windlass copy`: what is shown, what is asked for next, and with which exit code it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windlass.drivers.copying import End

from .conftest import Cli

HERE, THERE = "sqlite:///windlass.db", "sqlite:///there.db"


def test_a_copy_is_planned_made_and_told(
    cli: Cli, enqueue: Callable[..., str], drain: Callable[[], Any], tmp_path: Path
) -> None:
    job = enqueue("hello", "name=ada")
    planned = cli("copy", HERE, THERE, "--dry-run")
    assert planned.code == 0
    assert "there.db (will be made)" in planned.out
    assert "the copy can begin" in planned.out
    assert not (tmp_path / "there.db").exists(), "to look changes nothing"

    done = cli("copy", HERE, THERE)
    assert done.code == 0, done.err
    assert "comparing" in done.err
    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines() if line.endswith("same")}
    assert rows["jobs"][0] == "1"
    assert "which is open" in done.out

    again = cli("copy", HERE, THERE)
    assert (again.code, "already" in again.out) == (0, True)
    refused = cli("enqueue", "--app", "tasks", "hello", "name=bob")
    assert refused.code == 4
    assert f"has moved to sqlite:///{tmp_path}/there.db" in refused.err
    assert f"try: windlass enqueue --store sqlite:///{tmp_path}/there.db" in refused.err
    assert "has moved to" in cli("doctor").out
    assert cli("jobs", "show", job).code == 0, "it can be looked at"
    assert cli("jobs", "show", job, "--store", THERE).code == 0


def test_a_copy_is_given_up(cli: Cli, enqueue: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    enqueue("hello", "name=ada")
    nothing = cli("copy", HERE, THERE, "--back")
    assert (nothing.code, "nothing to give up" in nothing.err) == (3, True)
    with monkeypatch.context() as dying:
        dying.setattr(End, "last_numbers", interrupted)
        ended = cli("copy", HERE, THERE)
        assert (ended.code, "the same command goes on with it" in ended.err) == (130, True)
    assert cli("copy", HERE, THERE, "--dry-run", "--json").json["step"] == "copy"
    assert cli("enqueue", "--app", "tasks", "hello", "name=bob").code == 4
    back = cli("copy", HERE, THERE, "--back", "--json")
    assert back.json["target_emptied"] is True
    enqueue("hello", "name=bob")


def test_a_copy_that_did_not_begin_says_that_nothing_has_changed(
    cli: Cli, enqueue: Callable[..., str], drain: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue("hello", "name=ada")
    with monkeypatch.context() as dying:
        dying.setattr(End, "receive", interrupted)
        ended = cli("copy", HERE, THERE)
    assert (ended.code, "takes claims and writes as before" in ended.err) == (130, True), ended.err
    assert drain()["succeeded"] == 1


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_cannot_be_copied_is_refused(cli: Cli, enqueue: Callable[..., str]) -> None:
    enqueue("hello", "name=ada")
    for source, target, why in [
        (HERE, "memory://", "ends with it"), ("memory://", HERE, "ends with it"), (HERE, HERE, "same store"),
        (HERE, "http://localhost:9", "served"),
    ]:  # fmt: skip
        done = cli("copy", source, target)
        assert (done.code, why in done.err) == (3, True), done.err
    assert cli("copy", "sqlite:///nowhere.db", THERE).code == 4
    assert cli("copy", HERE, THERE, "--back", "--dry-run").code == 2
    assert cli("copy", HERE, THERE, "--wait", "soon").code == 2
    full = cli("copy", HERE, THERE)
    assert full.code == 0
    assert cli("enqueue", "--app", "tasks", "hello", "name=ada", "--store", "sqlite:///other.db").code == 0
    refused = cli("copy", THERE, "sqlite:///other.db")
    assert (refused.code, "not empty (" in refused.err) == (3, True)


def test_a_schema_is_named_for_either_side(cli: Cli, enqueue: Callable[..., str], empty_store: tuple[str, str]) -> None:
    enqueue("hello", "name=ada")
    url, schema = empty_store
    assert "the copy can begin" in cli("copy", HERE, url, "--dst-schema", schema, "--dry-run").out
    there = cli("copy", HERE, url, "--dst-schema", schema)
    assert (there.code, f"WINDLASS_SCHEMA={schema}" in there.err) == (0, True), there.err
    refused = cli("enqueue", "--app", "tasks", "hello", "name=bob")
    assert f"WINDLASS_SCHEMA={schema} windlass enqueue --store postgresql://" in refused.err
    back = cli("copy", url, "sqlite:///back.db", "--src-schema", schema, "--json")
    assert [one["rows"] for one in back.json["tables"] if one["table"] == "jobs"] == [1]
    assert cli("copy", url, "sqlite:///back.db", "--src-schema", "Wrong Name").code == 2
