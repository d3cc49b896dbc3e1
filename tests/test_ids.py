"""Names for new things: what a store, a listing and two processes rely on."""

from __future__ import annotations

import os
import uuid
from random import Random

import pytest

from windlass.ids import Ids, SystemBits

NOW = 1_794_786_834_123_456


def test_an_id_is_a_uuid_of_version_7_that_tells_its_time() -> None:
    for stamp in (1, 999, 1_000, NOW, 2**60):
        made = uuid.UUID(Ids().job(stamp))
        assert (made.version, made.variant) == (7, uuid.RFC_4122)
        assert made.int >> 80 == stamp // 1_000 & 0xFFFFFFFFFFFF
        assert made.int >> 64 & 0xFFF == stamp % 1_000


def test_ids_of_one_process_sort_as_they_were_made_whatever_the_clock_does() -> None:
    ids = Ids()
    made = [ids.job(NOW + moved) for moved in (0, 0, -5_000, 1, 999, 1_001, 1_000, -1, 60_000_000) for _ in range(700)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_a_seed_gives_the_same_ids_again() -> None:
    assert [Ids(Random(7)).job(NOW) for _ in range(3)] == [Ids(Random(7)).job(NOW)] * 3
    assert Ids(Random(7)).job(NOW) != Ids(Random(8)).job(NOW)


def test_a_forked_child_makes_ids_of_its_own() -> None:
    """Randomness that was fetched ahead must not be used by both."""
    ids = Ids()
    ids.job(NOW)
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(told, ids.job(NOW).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(told)
    with os.fdopen(heard) as pipe:
        assert pipe.read()[19:] != ids.job(NOW)[19:]


def test_all_random_bits_of_ids_and_tokens_are_used() -> None:
    ids = Ids()
    lows = [uuid.UUID(ids.job(NOW)).int & 2**62 - 1 for _ in range(2_000)]
    tokens = [int(ids.token(), 16) for _ in range(200)]
    for values, bits in ((lows, 62), (tokens, 128)):
        ones = zeros = 0
        for value in values:
            ones |= value
            zeros |= ~value
        assert ones & 2**bits - 1 == zeros & 2**bits - 1 == 2**bits - 1


def test_numbers_of_the_system_are_spread_evenly_and_fetched_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    fetches: list[int] = []
    fetch = os.urandom

    def counted(size: int) -> bytes:
        fetches.append(size)
        return fetch(size)

    monkeypatch.setattr(os, "urandom", counted)
    rolls = [SystemBits().random() for _ in range(2_560)]
    assert len(fetches) <= 11, "256 at a time"
    assert all(0 <= roll < 1 for roll in rolls)
    assert all(180 < sum(part <= roll * 10 < part + 1 for roll in rolls) < 340 for part in range(10))
