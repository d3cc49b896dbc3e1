"""The planted bugs speak of the code as it is: one that fits nowhere would never be tried."""

from __future__ import annotations

from collections import Counter

from mutants import ROOT, TIERS, base, everything


def test_every_planted_bug_fits_one_place() -> None:
    places = {one.what: (ROOT / "src/windlass" / one.file).read_text().count(one.old) for one in everything()}
    assert {what: count for what, count in places.items() if count != 1} == {}


def test_every_planted_bug_names_tests_that_there_are() -> None:
    assert {tier for one in everything() for tier in map(base, one.tiers)} - set(TIERS) == set()


def test_no_two_planted_bugs_have_one_name() -> None:
    assert [name for name, times in Counter(one.what for one in everything()).items() if times > 1] == []
