"""How far somebody reaches who is bound to an org or to queues."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.core.acting import By, check_within, has_token, is_theirs, owns_all
from windlass.core.alterations import CreateToken
from windlass.errors import OutOfScope
from windlass.records import ApiToken

from .make import queued

ORG = By(actor="ann", org_id="a")
QUEUES = By(actor="bob", queues=("q",))


def test_a_job_that_is_not_there_is_reported_like_a_foreign_one() -> None:
    assert is_theirs(ORG, None)
    assert is_theirs(ORG, queued(org_id="a"))
    assert not is_theirs(ORG, queued(org_id="b"))


@pytest.mark.parametrize(
    ("by", "owners", "answer"),
    [
        (ORG, [("a", "q"), ("a", None)], True), (ORG, [("a", "q"), ("b", "q")], False), (ORG, [], False),
        (QUEUES, [("a", "q")], True), (QUEUES, [("a", "q"), ("a", "r")], False), (QUEUES, [("a", None)], False),
    ],
)  # fmt: skip
def test_a_group_is_theirs_when_all_of_its_members_are(by: By, owners: Any, answer: bool) -> None:
    assert owns_all(by, owners) is answer


def token(**bounds: Any) -> dict[str, Any]:
    return {"token_id": "t", "name": "n", "digest": b"", "scopes": ("read",), **bounds}


@pytest.mark.parametrize(
    ("by", "bounds", "inside"),
    [
        (ORG, {"org_id": "a"}, True), (ORG, {"org_id": "b"}, False), (ORG, {}, False),
        (QUEUES, {"queues": ("q",)}, True), (QUEUES, {"queues": ("q",), "org_id": "b"}, True),
        (QUEUES, {"queues": ("q", "r")}, False), (QUEUES, {}, False),
    ],
)  # fmt: skip
def test_a_token_reaches_no_further_than_who_makes_it_or_sees_it(by: By, bounds: dict[str, Any], inside: bool) -> None:
    assert has_token(by, ApiToken(**token(**bounds))) is inside
    if inside:
        check_within(by, [CreateToken(**token(**bounds))])
    else:
        with pytest.raises(OutOfScope):
            check_within(by, [CreateToken(**token(**bounds))])
