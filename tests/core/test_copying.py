"""What a copier does next, by what both stores say; and rows as values that every store shares."""

from __future__ import annotations

import pytest

from windlass.core.copying import (
    FRESH,
    TABLES,
    Digest,
    Mark,
    Phase,
    Refusal,
    canonical,
    decoded,
    encoded,
    is_fresh,
    next_step,
    plain_json,
    weight,
)

SOURCE, TARGET = "id-of-source", "id-of-target"


def left(phase: Phase, copy_id: str = "c", other_id: str = TARGET) -> Mark:
    return Mark(copy_id=copy_id, phase=phase, other="there", other_id=other_id)


def right(phase: Phase, copy_id: str = "c", other_id: str = SOURCE) -> Mark:
    return Mark(copy_id=copy_id, phase=phase, other="here", other_id=other_id)


@pytest.mark.parametrize(
    ("source", "target", "step"),
    [
        (None, None, "begin"),
        (None, right("receiving", "old"), "begin"),
        (None, right("opened", "old", "another"), "begin"),
        (left("draining"), None, "receive"),
        (left("draining"), right("opened", "old", "another"), "receive"),
        (left("draining"), right("receiving", "old"), "clear"),
        (left("draining"), right("receiving"), "drain"),
        (left("moved"), right("receiving"), "copy"),
        (left("handed"), right("receiving"), "open"),
        (left("handed"), right("opened"), "done"),
    ],
)
def test_a_copier_goes_on_from_what_both_stores_say(source: Mark | None, target: Mark | None, step: str) -> None:
    assert next_step(source, target, TARGET, SOURCE) == step


@pytest.mark.parametrize(
    ("source", "target", "why"),
    [
        (None, right("receiving", "x", "another"), "being filled from another store"),
        (left("draining"), right("receiving", "x", "another"), "being filled from another store"),
        (left("moved", other_id="another"), None, "is being moved to another store"),
        (left("handed", other_id="another"), None, "has moved to another store"),
        (left("moved"), None, "emptied or replaced"),
        (left("moved"), right("receiving", "old"), "emptied or replaced"),
        (left("handed"), None, "knows nothing of it"),
    ],
)
def test_stores_that_do_not_belong_together_are_refused(source: Mark | None, target: Mark | None, why: str) -> None:
    refused = next_step(source, target, TARGET, SOURCE)
    assert isinstance(refused, Refusal)
    assert why in refused.why


def test_a_copier_counts_as_gone_when_it_was_silent_for_long_or_has_left() -> None:
    mark = Mark(copy_id="c", phase="moved", other="", other_id="", owner="host:1:x", seen_at=1_000)
    assert is_fresh(mark, 1_000 + FRESH - 1)
    assert not is_fresh(mark, 1_000 + FRESH)
    assert not is_fresh(Mark(copy_id="c", phase="moved", other="", other_id="", seen_at=1_000), 1_000)
    assert decoded(encoded(mark)) == mark
    assert decoded(encoded(None)) is None


def test_json_that_means_the_same_is_the_same_value() -> None:
    assert plain_json('{"b": 1,  "a": ["x", null]}') == plain_json('{"a":["x",null],"b":1}') == '{"a":["x",null],"b":1}'
    assert plain_json(None) is None
    [hooks] = [table for table in TABLES if table.name == "webhooks"]
    place = hooks.names.index("events")
    row = tuple('["b", "a"]' if n == place else None for n in range(len(hooks.names)))
    assert canonical(hooks, [row])[0][place] == '["b","a"]', "the order of a list means something"


def test_a_digest_tells_rows_apart_and_their_number() -> None:
    def of(*pages: list[tuple[object, ...]]) -> tuple[int, str]:
        digest = Digest()
        for page in pages:
            digest.add(page)
        return digest.rows, digest.text

    assert of([(1, "a")], [(2, "b")]) == of([(1, "a"), (2, "b")])
    assert of([(1, "a")], [(2, "b")])[0] == 2
    different = [of(), of([(1, "a")]), of([(1, b"a")]), of([(1, None)]), of([(1.0, "a")]), of([(1, "a"), (1, "a")])]
    assert len(set(different)) == len(different)


def test_a_table_is_read_in_the_order_of_its_key() -> None:
    for table in TABLES:
        assert table.names[: len(table.key)] == table.key
        assert len(set(table.names)) == len(table.names)


def test_rows_weigh_what_their_texts_and_bytes_are_long() -> None:
    assert weight([(1, "abc", b"12345"), (None, "", 0.5)]) == 8 + 3 + 5 + 8 + 0 + 8
