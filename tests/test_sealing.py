"""What is sealed opens for its own job, with its own key, unchanged; and for nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from windlass.errors import InvalidInput, Undecodable
from windlass.sealing import KeyRing, is_sealed, new_line, readable, ring_of

OLD, NEW = bytes(range(32)), bytes(range(1, 33))
RING = KeyRing({"old": OLD, "new": NEW})


def test_what_is_sealed_opens_again_and_cannot_be_read() -> None:
    stored = RING.seal(b'{"card":"4111"}', "payload", "acme", "j1")
    assert is_sealed(stored)
    assert b"4111" not in stored
    assert RING.open(stored, "payload", "acme", "j1") == b'{"card":"4111"}'
    assert stored != RING.seal(b'{"card":"4111"}', "payload", "acme", "j1")  # two that are alike do not look alike


@pytest.mark.parametrize(
    ("part", "org", "job"),
    [("payload", "acme", "j2"), ("payload", "other", "j1"), ("payload", None, "j1"), ("payload", "", "j1"),
     ("result", "acme", "j1"), ("payload", "acmej", "1")],
)  # fmt: skip
def test_it_opens_for_its_own_job_only(part: str, org: str | None, job: str) -> None:
    stored = RING.seal(b"{}", "payload", "acme", "j1")
    with pytest.raises(Undecodable, match="was changed, or belongs to another job"):
        RING.open(stored, part, org, job)  # type: ignore[arg-type]


def test_no_bit_of_it_can_be_changed() -> None:
    stored = RING.seal(b'{"n":1}', "payload", None, "j1")
    for place in range(4, len(stored)):
        forged = stored[:place] + bytes([stored[place] ^ 1]) + stored[place + 1 :]
        with pytest.raises(Undecodable):
            RING.open(forged, "payload", None, "j1")
    for size in range(5, len(stored)):
        with pytest.raises(Undecodable):
            RING.open(stored[:size], "payload", None, "j1")


def test_an_organisation_without_a_name_is_none_that_there_is() -> None:
    with pytest.raises(Undecodable):
        RING.open(RING.seal(b"{}", "payload", "", "j1"), "payload", None, "j1")


def test_the_newest_key_seals_and_the_old_ones_open() -> None:
    before, ring = KeyRing({"old": OLD}), RING
    assert ring.open(before.seal(b"{}", "payload", None, "j"), "payload", None, "j") == b"{}"
    with pytest.raises(Undecodable, match="encrypted with the key 'new', and this program has only old"):
        before.open(ring.seal(b"{}", "payload", None, "j"), "payload", None, "j")
    with pytest.raises(Undecodable, match="does not open with its key"):  # the same name for another key
        KeyRing({"new": OLD}).open(ring.seal(b"{}", "payload", None, "j"), "payload", None, "j")


def test_names_of_duplicates_outlive_a_rotation_and_tell_nothing() -> None:
    assert KeyRing({"old": OLD}).hidden("pin=1234") == RING.hidden("pin=1234") != RING.hidden("pin=1235")
    assert "1234" not in RING.hidden("pin=1234")
    assert KeyRing({"old": NEW}).hidden("pin=1234") != RING.hidden("pin=1234")


def test_what_is_not_sealed_is_readable() -> None:
    assert readable(b"{}", "payload") == b"{}"
    with pytest.raises(Undecodable, match="is encrypted with the key 'new', and cannot be opened here"):
        readable(RING.seal(b"1", "result", None, "j"), "result")


def ring(tmp_path: Path, text: str, mode: int = 0o600) -> str:
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_key_ring_is_a_file_of_names_and_keys(tmp_path: Path) -> None:
    path = ring(tmp_path, f"# ours\n{new_line('a')}\n{new_line('b')}")
    found = ring_of(path)
    assert found is not None
    assert found.names == ("a", "b")
    assert repr(found) == "<keys a, b>"
    assert ring_of("none") is None


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "holds no key"), ("a", "line 1"), ("a short", "32 bytes in base64"), ("a b c", "line 1"),
     ("ä " + "A" * 44, "line 1"),
     (new_line("a") + new_line("a"), "line 2")],
    ids=["empty", "no key", "short", "three words", "a name that is not ASCII", "twice"],  # keys are new at each look
)  # fmt: skip
def test_a_bad_key_ring_is_refused_without_telling_a_key(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as told:
        ring_of(ring(tmp_path, text))
    assert "short" not in str(told.value)


def test_a_key_ring_that_everybody_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="chmod 600"):
        ring_of(ring(tmp_path, new_line("a"), 0o604))
    assert ring_of(ring(tmp_path, new_line("a"), 0o640)) is not None  # a group may: that is how pods get secrets
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        ring_of(str(tmp_path / "nothing"))


def test_a_key_that_is_next_opens_and_does_not_seal_and_changes_no_name(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.touch(0o600)
    path.write_text(new_line("a"))
    alone = ring_of(str(path))
    path.write_text(path.read_text() + new_line("b", waiting=True))
    before = ring_of(str(path))
    path.write_text(path.read_text().replace(" next", ""))
    after = ring_of(str(path))
    assert alone is not None
    assert before is not None
    assert after is not None
    assert alone.open(before.seal(b"1", "payload", None, "j"), "payload", None, "j") == b"1"
    assert before.open(after.seal(b"2", "payload", None, "j"), "payload", None, "j") == b"2"
    with pytest.raises(Undecodable, match="with the key 'b'"):
        alone.open(after.seal(b"3", "payload", None, "j"), "payload", None, "j")
    assert alone.hidden("x") == before.hidden("x") == after.hidden("x")


def test_a_ring_of_keys_that_are_all_next_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.touch(0o600)
    path.write_text(new_line("a", waiting=True))
    with pytest.raises(InvalidInput, match="no key that encrypts"):
        ring_of(str(path))
