"""Keys that keep the same work from being queued twice."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.uniqueness import (
    LONGEST_KEY,
    Scope,
    apart,
    bounded,
    clean_key,
    dedupe_key,
    idempotency_scope,
    is_taken,
    keys_of,
    may_replace,
    may_touch,
    stable_json,
    stored_dedupe_key,
)
from windlass.types import STATES, NewJob, State

from .make import NOW, new, queued

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
LEAVES = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12
)
NAMES = st.text("ab:%=/g", max_size=6) | st.sampled_from(["global", "a::b", "", "%3A", "=a"])


def reordered(value: Any) -> Any:
    """The same JSON value with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


# --------------------------------------------------------------------------------------------------------------- dedupe


def test_the_dedupe_key_of_spec_004_is_kept_to_the_letter() -> None:
    payload = {"b": [2, 1], "a": {"z": None, "y": "é"}}
    assert dedupe_key("mail", "acme", payload) == 'mail::acme::{"a":{"y":"é","z":null},"b":[2,1]}'
    assert dedupe_key("mail", None, {}) == "mail::global::{}"


@given(JSON)
def test_the_order_of_keys_does_not_matter_at_any_depth(payload: Any) -> None:
    assert dedupe_key("t", "o", reordered(payload)) == dedupe_key("t", "o", payload)
    assert stored_dedupe_key("t", "o", reordered(payload)) == stored_dedupe_key("t", "o", payload)


@given(JSON)
def test_stable_json_is_the_same_value(payload: Any) -> None:
    assert json.loads(stable_json(payload)) == payload


def test_organisation_type_and_the_order_of_arrays_matter() -> None:
    for key in (dedupe_key, stored_dedupe_key):
        keys = [
            key("t", "a", {"x": [1, 2]}), key("t", "b", {"x": [1, 2]}), key("t", None, {"x": [1, 2]}),
            key("u", "a", {"x": [1, 2]}), key("t", "a", {"x": [2, 1]}), key("t", "a", {"x": ["1", 2]}),
        ]  # fmt: skip
        assert len(set(keys)) == len(keys)


def test_the_stored_key_tells_an_organisation_called_global_from_none() -> None:
    assert dedupe_key("t", "global", {}) == dedupe_key("t", None, {})
    assert stored_dedupe_key("t", "global", {}) != stored_dedupe_key("t", None, {})
    assert stored_dedupe_key("t", "", {}) != stored_dedupe_key("t", None, {})


def test_the_stored_key_is_not_fooled_by_colons_in_a_type() -> None:
    assert dedupe_key("a::b", "c", {}) == dedupe_key("a", "b::c", {})
    assert stored_dedupe_key("a::b", "c", {}) != stored_dedupe_key("a", "b::c", {})


@given(st.tuples(NAMES, st.none() | NAMES, JSON), st.tuples(NAMES, st.none() | NAMES, JSON))
def test_stored_keys_are_equal_only_for_the_same_work(one: Any, other: Any) -> None:
    same = (one[0], one[1], stable_json(one[2])) == (other[0], other[1], stable_json(other[2]))
    assert (stored_dedupe_key(*one) == stored_dedupe_key(*other)) is same


@given(st.text(st.characters(codec="utf-8"), max_size=400), st.text(st.characters(codec="utf-8"), max_size=400))
def test_long_keys_are_hashed_and_stay_different(one: str, other: str) -> None:
    assert len(bounded(one)) <= LONGEST_KEY
    assert (bounded(one) == bounded(other)) is (one == other)


def test_a_key_at_the_limit_stays_readable_and_one_beyond_is_hashed() -> None:
    assert bounded("k" * LONGEST_KEY) == "k" * LONGEST_KEY
    assert bounded("k" * (LONGEST_KEY + 1)).startswith("sha256:")
    assert len(stored_dedupe_key("t", "o", {"x": "y" * 10_000})) <= LONGEST_KEY


# ---------------------------------------------------------------------------------------------------------- idempotency


@pytest.mark.parametrize(
    ("scope", "text"),
    [("type", "type:mail"), ("queue", "queue:fast"), ("org", "global"), ("global", "global")],
)
def test_without_an_organisation_a_scope_is_the_thing_it_names(scope: Scope, text: str) -> None:
    assert idempotency_scope(scope, type="mail", queue="fast", org_id=None) == text


@pytest.mark.parametrize("scope", [s for s in get_args(Scope) if s != "global"])
def test_two_organisations_never_share_a_key(scope: Scope) -> None:
    found = {idempotency_scope(scope, type="mail", queue="fast", org_id=org) for org in ("a", "b", None)}
    assert len(found) == 3


def test_the_global_scope_is_one_for_all() -> None:
    found = {idempotency_scope("global", type=t, queue=q, org_id=o) for t in "ab" for q in "cd" for o in ("e", None)}
    assert found == {"global"}


def test_the_type_scope_ignores_the_queue_and_the_queue_scope_the_type() -> None:
    def scope(which: Scope, kind: str, queue: str) -> str:
        return idempotency_scope(which, type=kind, queue=queue, org_id=None)

    assert scope("type", "a", "x") == scope("type", "a", "y") != scope("type", "b", "x")
    assert scope("queue", "a", "x") == scope("queue", "b", "x") != scope("queue", "a", "y")
    assert scope("type", "x", "x") != scope("queue", "x", "x")


@given(NAMES, st.none() | NAMES, NAMES, st.none() | NAMES)
def test_scopes_are_equal_only_for_the_same_names(kind: str, org: str | None, kind2: str, org2: str | None) -> None:
    one = idempotency_scope("type", type=kind, queue="q", org_id=org)
    other = idempotency_scope("type", type=kind2, queue="q", org_id=org2)
    assert (one == other) is ((kind, org) == (kind2, org2))
    assert len(idempotency_scope("type", type=kind * 100, queue="q", org_id=org)) <= LONGEST_KEY


@pytest.mark.parametrize(("key", "kept"), [(None, None), ("", None), (" \t", None), (" k ", "k"), ("k", "k")])
def test_a_blank_key_is_no_key(key: str | None, kept: str | None) -> None:
    assert clean_key(key) == kept


@pytest.mark.parametrize(("expires_at", "taken"), [(None, True), (NOW + 1, True), (NOW, False), (NOW - 1, False)])
def test_a_key_stays_taken_for_ever_unless_it_has_an_end(expires_at: int | None, taken: bool) -> None:
    assert is_taken(expires_at, NOW) is taken


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("executions", [0, 1])
def test_a_job_is_replaced_only_before_anybody_began_it(state: State, executions: int) -> None:
    assert may_replace(queued(state=state, executions=executions)) is (state == "queued" and executions == 0)


# ------------------------------------------------------------------------------------------------------------- batches


def keyed(idempotency: str | None = None, dedupe: str | None = None, scope: str = "s") -> NewJob:
    return new(idempotency_key=idempotency, idempotency_scope=None if idempotency is None else scope, dedupe_key=dedupe)


def test_a_job_without_keys_has_none_and_the_two_kinds_do_not_mix() -> None:
    assert keys_of(keyed()) == []
    assert keys_of(keyed("k")) == [("idempotency", "s", "k")]
    assert keys_of(keyed(dedupe="k")) == [("dedupe", "k")]
    assert len(keys_of(keyed("k", "k"))) == 2
    assert keys_of(new(schedule_id="s", fire_at=5)) == [("fire", "s", "5")]
    for half in ({"schedule_id": "s"}, {"fire_at": 5}, {"idempotency_key": "k"}, {"idempotency_scope": "s"}):
        assert keys_of(new(**half)) == []


# -------------------------------------------------------------------------------------------------- of who is bound to some


@given(NAMES, NAMES, TEXT, TEXT, st.booleans())
def test_keys_of_two_orgs_or_queues_never_meet(one: str, other: str, key: str, another: str, of_org: bool) -> None:
    def made(place: str, dedupe: str) -> NewJob:
        where: dict[str, Any] = {"org_id": place} if of_org else {"queue": place}
        job = new(dedupe_key=dedupe, idempotency_key="k", idempotency_scope="global", **where)
        return apart(job, of_org=of_org, of_queue=not of_org)

    first, second = made(one, key), made(other, another)
    assert (first.dedupe_key == second.dedupe_key) == ((one, key) == (other, another))
    assert (first.idempotency_scope == second.idempotency_scope) == (one == other)


def test_a_key_by_arguments_is_of_its_org_already() -> None:
    key = stored_dedupe_key("t", "acme", {"a": 1})
    job = new(type="t", org_id="acme", payload=b'{"a":1}', dedupe_key=key)
    assert apart(job, of_org=True, of_queue=False).dedupe_key == key
    assert apart(job, of_org=True, of_queue=True).dedupe_key != key


@pytest.mark.parametrize(
    ("job", "of_org", "of_queue", "scope", "key"),
    [
        (keyed(), True, True, None, None), (keyed("k", "d"), False, False, "s", "d"),
        (keyed("k", "d"), True, False, "s", "org::d"),
        (keyed("k", "d", "global"), False, False, "global", "d"),
        (keyed("k", "d", "global"), True, False, "global", "org::d"),
        (keyed("k", "d"), False, True, "queue:default", "queue:default:d"),
        (keyed("k", "d"), True, True, "queue:default", "queue:default:org::d"),
        (keyed("k"), True, True, "queue:default", None),
        (keyed(dedupe="d"), True, True, None, "queue:default:org::d"),
    ],
)  # fmt: skip
def test_keys_are_set_apart_only_for_who_is_bound_and_none_is_made_up(
    job: NewJob, of_org: bool, of_queue: bool, scope: str | None, key: str | None
) -> None:
    found = apart(job, of_org=of_org, of_queue=of_queue)
    assert (found.idempotency_scope, found.dedupe_key) == (scope, key)


def test_a_global_key_becomes_one_of_the_org() -> None:
    for scope, within in (("global", "org:acme/global"), ("s", "s")):
        job = new(org_id="acme", idempotency_key="k", idempotency_scope=scope)
        assert apart(job, of_org=True, of_queue=False).idempotency_scope == within
        assert apart(job, of_org=False, of_queue=False).idempotency_scope == scope


@pytest.mark.parametrize("state", STATES)
def test_the_row_of_a_running_job_is_its_workers(state: State) -> None:
    assert may_touch(queued(state=state)) is (state != "running")
