"""What an error is called when it happens again."""

from __future__ import annotations

import pytest

from windlass.core.failures import error_of, fingerprint, is_like, may_be_fingerprint

from .make import queued

ERROR = "TimeoutError: no answer from 'db-7' after 30 s (0xdeadbeef)"


def test_why_a_job_died_comes_before_what_it_said_last() -> None:
    assert error_of(queued(last_error="last")) == "last"
    assert error_of(queued(last_error="last", dead_reason="died")) == "died"


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("TimeoutError: no answer from 'cache' after 5 s (0x12ab)", True), (f"  {ERROR}\n  at line 7", True),
        ("TimeoutError: no answer from 'db-7' after 30 m (0xdeadbeef)", False), ("", False),
    ],
)  # fmt: skip
def test_errors_that_differ_in_numbers_and_quotes_are_one(other: str, same: bool) -> None:
    assert (fingerprint(other) == fingerprint(ERROR)) is same


@pytest.mark.parametrize(
    ("error", "wanted", "like"),
    [
        (ERROR, "no answer", True), (ERROR, "No answer", False), (ERROR, fingerprint(ERROR), True),
        (ERROR, fingerprint("another"), False), ("", fingerprint(""), False), ("", "", True), (ERROR, "0123456", False),
    ],
)  # fmt: skip
def test_an_error_is_found_by_a_part_of_it_or_by_its_fingerprint(error: str, wanted: str, like: bool) -> None:
    assert is_like(error, wanted) is like


def test_a_fingerprint_is_eight_digits() -> None:
    assert may_be_fingerprint(fingerprint(ERROR))
    assert not any(map(may_be_fingerprint, ("0123456", "012345678", "0123456g", "")))
