"""`windlass keys add`: a new key, for its owner's eyes only, and nothing else of the ring touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Cli
from windlass.sealing import new_line, ring_of


def test_a_ring_is_made_and_grows_at_its_end(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    first = cli("keys", "add", str(path), "--name", "a")
    assert first.code == 0
    made = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(made.rstrip("\n"))  # as an editor may leave it
    assert cli("keys", "add", str(path), "--name", "b", "--json").json["name"] == "b"
    assert path.read_text().startswith(made)
    ring = ring_of(str(path))
    assert ring is not None
    assert ring.names == ("a", "b")
    assert cli("keys", "add", str(path), "--name", "c", "--next").code == 0
    assert path.read_text().endswith(" next\n")
    key = made.split()[1]
    assert key not in first.out + first.err


def test_a_file_without_a_key_that_encrypts_is_given_one(cli: Cli, tmp_path: Path) -> None:
    """Its error says to type this very command."""
    path = tmp_path / "keys.txt"
    path.touch(mode=0o600)
    refused = cli("keys", "add", str(path), "--name", "a", "--next")
    assert (refused.code, "another key has to encrypt meanwhile" in refused.err, path.read_text()) == (2, True, "")
    path.write_text("# ours\n" + new_line("old", waiting=True))
    assert cli("keys", "add", str(path), "--name", "a").code == 0
    ring = ring_of(str(path))
    assert ring is not None
    assert ring.names == ("old", "a")


@pytest.mark.parametrize(("name", "says"), [("a", "has a key 'a'"), ("b c", "must be letters")])
def test_a_name_that_is_taken_or_none_leaves_the_ring_alone(cli: Cli, tmp_path: Path, name: str, says: str) -> None:
    path = tmp_path / "keys.txt"
    cli("keys", "add", str(path), "--name", "a")
    before = path.read_text()
    done = cli("keys", "add", str(path), "--name", name)
    assert done.code != 0
    assert says in done.err
    assert path.read_text() == before


def test_a_key_ring_that_is_not_there_is_told_by_every_command(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_KEY_FILE", "nowhere.txt")
    done = cli("enqueue", "--app", "tasks", "hello", "name=ada")
    assert done.code != 0
    assert "key_file: nowhere.txt cannot be read: No such file" in done.err
