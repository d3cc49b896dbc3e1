"""What may enter the store: bad input is refused before anything is written, and the error names the field."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.clock import LAST_INSTANT
from windlass.core.admission import PAYLOAD_LIMIT, POLICY_LIMIT, check_job, check_jobs
from windlass.core.counters import MOST_COUNTED
from windlass.core.fields import (
    BATCH_LIMIT,
    KEY_LIMIT,
    LARGEST,
    NAME_BYTES,
    NAME_LIMIT,
    check_id,
    check_limit,
    check_queues,
)
from windlass.errors import InvalidInput
from windlass.policies import Retry, fixed
from windlass.types import NewGroup

from .make import new


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"type": "service:nextjs", "queue": "a/b"},
        {"type": "grüße", "id": "x" * NAME_LIMIT},
        {"priority": 2**31 - 1, "timeout_ns": LARGEST, "max_attempts": LARGEST, "run_at": LAST_INSTANT},
        {"priority": -(2**31), "run_at": 0},
        {"attempts": 3, "max_attempts": 3},
        {"attempts": 9, "max_attempts": 0},
        {"payload": b"x" * PAYLOAD_LIMIT},
        {"payload": b""},
        {"idempotency_key": "k", "idempotency_scope": "s"},
        {"limit_keys": ("key:a", "key:b")},
        {"retry_mode": "new_job", "crash_policy": "fail"},
        {"retry_mode": "same_job", "crash_policy": "fail"},
        {"attempts": MOST_COUNTED},
        {"retry_policy": Retry(max_attempts=3).encode()},
        {"retry_policy": Retry(backoff=fixed("365000d")).encode().ljust(POLICY_LIMIT)},
        {"org_id": "acme", "tags": ("a", "b"), "headers": {"h": ""}, "codec": "raw"},
        {"dedupe_key": "\ud7ff\ue000"},
        {"template_id": "t", "template_version": 0, "schedule_id": "s", "fire_at": 0},
        {"group_id": "g", "group_seq": 0, "opens": NewGroup(group_id="g")},
        {"after": ("parent",), "after_rule": "continue"},
        {"after": ("parent", "parent")},  # it is one parent, core/dependencies.py: edges_of
        {"group_seq": 0, "template_version": 0, "fire_at": 0, "idempotency_expires_at": 0, "headers": {}},
    ],
)
def test_a_sound_job_is_let_in(fields: dict[str, Any]) -> None:
    check_job(new(**fields))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"id": ""}, "id"),
        ({"id": " \t"}, "id"),
        ({"id": "x" * (NAME_LIMIT + 1)}, "id"),
        ({"id": "a\nb"}, "id"),
        ({"id": None}, "id"),
        ({"type": ""}, "type"),
        ({"type": "  "}, "type"),
        ({"type": "x" * (NAME_LIMIT + 1)}, "type"),
        ({"type": "a\x00b"}, "type"),
        ({"type": 5}, "type"),
        ({"queue": ""}, "queue"),
        ({"queue": "q\u202e"}, "queue"),
        ({"timeout_ns": -1}, "timeout_ns"),
        ({"timeout_ns": LARGEST + 1}, "timeout_ns"),
        ({"attempts": -1}, "attempts"),
        ({"max_attempts": -1}, "max_attempts"),
        ({"max_lost": -1}, "max_lost"),
        ({"attempts": 3, "max_attempts": 2}, "attempts"),
        ({"priority": 2**31}, "priority"),
        ({"priority": -(2**31) - 1}, "priority"),
        ({"run_at": -1}, "run_at"),
        ({"run_at": LAST_INSTANT + 1}, "run_at"),
        ({"attempts": MOST_COUNTED + 1}, "attempts"),
        ({"payload": b"x" * (PAYLOAD_LIMIT + 1)}, "payload"),
        ({"idempotency_key": "k"}, "idempotency_key"),
        ({"idempotency_scope": "s"}, "idempotency_key"),
        ({"limit_keys": ("key:a", "key:a")}, "limit_keys"),
        ({"retry_mode": "new_job", "crash_policy": "requeue"}, "crash_policy"),
        ({"retry_mode": "new_job"}, "crash_policy"),
        ({"retry_mode": "new_job", "crash_policy": "fail", "history": "failures"}, "history"),
        ({"retry_mode": "any"}, "retry_mode"),
        ({"crash_policy": "any"}, "crash_policy"),
        ({"on_unknown": "any"}, "on_unknown"),
        ({"on_duplicate": "any"}, "on_duplicate"),
        ({"history": "any"}, "history"),
        ({"retry_policy": "any"}, "retry_policy"),
        ({"retry_policy": ["any"]}, "retry_policy"),
        ({"payload": "{}"}, "payload"),
        # one alone of those that most jobs do not have
        ({"org_id": ""}, "org_id"),
        ({"tags": ["a"]}, "tags"),
        ({"tags": None}, "tags"),
        ({"tags": ("a", "")}, "tags"),
        ({"tags": ("a", "b", "a")}, "tags"),
        ({"limit_keys": ["a"]}, "limit_keys"),
        ({"limit_keys": (5,)}, "limit_keys"),
        ({"limit_keys": ("key:a", "org:acme")}, "limit_keys"),
        ({"headers": {"": "v"}}, "headers"),
        ({"headers": {"h": 5}}, "headers"),
        ({"codec": ""}, "codec"),
        ({"codec": None}, "codec"),
        ({"dedupe_key": " "}, "dedupe_key"),
        ({"dedupe_key": "a\x00b"}, "dedupe_key"),
        ({"dedupe_key": 5}, "dedupe_key"),
        ({"idempotency_key": " ", "idempotency_scope": "s"}, "idempotency_key"),
        ({"idempotency_key": "k", "idempotency_scope": ""}, "idempotency_scope"),
        ({"group_id": ""}, "group_id"),
        ({"group_id": "g", "group_seq": -1}, "group_seq"),
        ({"template_id": ""}, "template_id"),
        ({"template_id": "t", "template_version": True}, "template_version"),
        ({"schedule_id": ""}, "schedule_id"),
        ({"schedule_id": "s", "fire_at": -1}, "fire_at"),
        ({"after": ["parent"]}, "after"),
        ({"after": ("parent", None)}, "after"),
        ({"after": ("job-1",)}, "after"),
        ({"after_rule": "any"}, "after_rule"),
        ({"opens": NewGroup(group_id="g")}, "group_id"),
        ({"opens": NewGroup(group_id="g"), "group_id": "other"}, "group_id"),
        # said alone, although it means nothing without something else
        ({"group_seq": "x"}, "group_seq"),
        ({"group_seq": -1}, "group_seq"),
        ({"template_version": 2**70}, "template_version"),
        ({"fire_at": -1}, "fire_at"),
        ({"idempotency_expires_at": -1}, "idempotency_expires_at"),
        ({"headers": []}, "headers"),
        ({"headers": ["a"]}, "headers"),
        ({"headers": ""}, "headers"),
        ({"opens": "g"}, "opens"),
        ({"after": ("",)}, "after"),
        # nothing that could be looked up in a set
        *(({field: []}, field) for field in ("retry_mode", "crash_policy", "on_unknown", "on_duplicate", "history")),
        ({"after_rule": []}, "after_rule"),
        ({"retry_policy": Retry(max_attempts=3).encode().encode()}, "retry_policy"),
        ({"retry_policy": "\ud800"}, "retry_policy"),
        ({"retry_policy": '{"x":' + "[" * 5_000}, "retry_policy"),
        ({"retry_policy": Retry(max_attempts=3).encode().ljust(POLICY_LIMIT + 1)}, "retry_policy"),
        *(
            ({"retry_policy": f'{{"backoff":{{"type":{backoff}}}}}'}, "retry_policy")
            for backoff in (
                '"fixed","pause":-1',
                '"fixed","pause":1e400',
                f'"fixed","pause":{10**400}',
                f'"linear","first":1,"step":{10**400}',
                f'"linear","first":{10**400},"step":1,"cap":{10**400}',
                f'"exponential","base":1,"cap":{10**400}',
                '"exponential","base":1,"factor":0',
                f'"table","pauses":[{10**400}]',
            )
        ),
    ],
)
def test_a_bad_job_is_refused_by_the_name_of_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_job(new(**fields))
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")
    assert not refused.value.retryable


def test_the_payload_limit_can_be_set_and_the_error_says_both_sizes() -> None:
    check_job(new(payload=b"x" * 10), payload_limit=10)
    with pytest.raises(InvalidInput, match=r"11 bytes, the limit is 10"):
        check_job(new(payload=b"x" * 11), payload_limit=10)


@pytest.mark.parametrize(("field", "bound"), [("max_lost", r"2\*\*63 - 1"), ("attempts", f"{MOST_COUNTED:,}")])
@pytest.mark.parametrize("value", [-1, 1.0, True, None, LARGEST + 1])
def test_a_count_is_a_whole_number_and_the_error_says_up_to_what(field: str, bound: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"{field}: .* between 0 and {bound}, got {value}$"):
        check_job(new(**{field: value}))


def test_what_equals_a_number_that_was_let_in_is_not_let_in_for_that() -> None:
    check_job(new(max_lost=1, priority=0))
    for alike in ({"max_lost": True}, {"max_lost": 1.0}, {"max_lost": 1, "priority": False}):
        with pytest.raises(InvalidInput):
            check_job(new(**alike))


@pytest.mark.parametrize("limit", [0, -1, BATCH_LIMIT + 1, 1.0, True, None])
def test_a_batch_is_neither_empty_nor_endless(limit: object) -> None:
    with pytest.raises(InvalidInput, match="limit"):
        check_limit(limit)


def test_a_batch_of_one_and_a_full_batch_are_fine() -> None:
    check_limit(1)
    check_limit(BATCH_LIMIT)


@pytest.mark.parametrize("queues", [(), [], "default", None, {"a"}, ("a", ""), (1,)])
def test_queues_are_a_non_empty_sequence_of_names(queues: object) -> None:
    with pytest.raises(InvalidInput, match="queue"):
        check_queues(queues)


def test_one_queue_and_several_are_fine() -> None:
    check_queues(("a",))
    check_queues(["a", "b"])


def test_the_id_of_a_caller_is_kept_as_it_is() -> None:
    for good in ("1", "a b", "ü", "0190-…"):
        check_id(good)


def test_a_batch_says_whether_its_jobs_differ_in_id_and_payload_alone() -> None:
    assert check_jobs([new(id="a"), new(id="b", payload=b"2")])
    assert not check_jobs([new(id="a"), new(id="b", priority=1)])
    assert not check_jobs([])


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"id": ""}, "id"), ({"payload": b"x" * (PAYLOAD_LIMIT + 1)}, "payload"), ({"payload": "{}"}, "payload")],
)
@pytest.mark.parametrize("priority", [0, 1])
def test_a_job_is_looked_at_whether_or_not_it_is_like_the_one_before(
    fields: dict[str, Any], field: str, priority: int
) -> None:
    with pytest.raises(InvalidInput, match=field):
        check_jobs([new(id="a"), new(**{"id": "b", "priority": priority, **fields})])


def test_a_job_that_waits_for_itself_is_refused_although_it_is_like_the_one_before() -> None:
    assert check_jobs([new(id="a", after=("x", "y")), new(id="b", after=("x", "y"))])
    with pytest.raises(InvalidInput, match="after: the job 'b' cannot wait for itself"):
        check_jobs([new(id="a", after=("x", "b")), new(id="b", after=("x", "b"))])


@pytest.mark.parametrize("alike", [True, 1.0])
@pytest.mark.parametrize(
    "field",
    "priority timeout_ns attempts max_attempts max_lost run_at group_seq fire_at template_version "
    "idempotency_expires_at".split(),
)
def test_a_job_is_not_like_the_one_before_for_what_equals_its_numbers(field: str, alike: Any) -> None:
    sound = {"attempts": 1, "max_attempts": 1, field: 1}
    assert check_jobs([new(id="a", **sound), new(id="b", **sound)])
    with pytest.raises(InvalidInput, match=field):
        check_jobs([new(id="a", **sound), new(id="b", **sound | {field: alike})])


def test_a_job_that_is_unlike_the_one_before_is_looked_at_whole() -> None:
    with pytest.raises(InvalidInput, match="max_lost"):
        check_jobs([new(id="a"), new(id="b", max_lost=-1)])


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"group_id": " "}, "group_id"),
        ({"group_id": None}, "group_id"),
        ({"name": 5}, "name"),
        ({"name": "\x00"}, "name"),
        ({"mode": "spiral"}, "mode"),
        ({"mode": []}, "mode"),
        ({"on_failure": "weep"}, "on_failure"),
    ],
)
def test_a_group_that_a_job_opens_is_looked_at(fields: dict[str, Any], field: str) -> None:
    group = NewGroup(**{"group_id": "g", **fields})
    with pytest.raises(InvalidInput, match=field):
        check_job(new(group_id=group.group_id, opens=group))


def test_the_end_of_a_key_is_a_time() -> None:
    with pytest.raises(InvalidInput, match="idempotency_expires_at"):
        check_job(new(idempotency_key="k", idempotency_scope="s", idempotency_expires_at=-1))


@pytest.mark.parametrize(
    "key", ["x" * (KEY_LIMIT + 1), "\N{JIGSAW PUZZLE PIECE}" * (KEY_LIMIT // 4 + 1), "\ud800", "a\udfff"]
)
def test_a_key_is_text_that_can_be_stored_and_not_too_long(key: str) -> None:
    check_job(new(dedupe_key="x" * KEY_LIMIT))
    with pytest.raises(InvalidInput, match="dedupe_key"):
        check_job(new(dedupe_key=key))


@pytest.mark.parametrize("field", ["id", "type", "queue", "org_id", "group_id"])
def test_a_name_is_bounded_in_bytes_as_well(field: str) -> None:
    piece = "\N{JIGSAW PUZZLE PIECE}"
    most = NAME_BYTES // len(piece.encode())
    check_job(new(**{field: piece * most}))
    with pytest.raises(InvalidInput, match=f"{field}: .* {NAME_BYTES}"):
        check_job(new(**{field: piece * (most + 1)}))


@pytest.mark.parametrize("field", ["max_lost", "timeout_ns", "attempts", "max_attempts", "priority", "run_at", "fire_at"])
def test_a_number_that_python_does_not_write_out_is_refused_like_any_other(field: str) -> None:
    with pytest.raises(InvalidInput, match=f"{field}: .*, got a number of 16610 bits$"):
        check_job(new(**{field: 10**5000}))
    with pytest.raises(InvalidInput, match=r"limit: .*, got a number of 16610 bits$"):
        check_limit(10**5000)
    with pytest.raises(InvalidInput, match=r"queues: .*, got a dict$"):
        check_queues({"a": 10**5000})


def test_what_is_told_of_a_bad_value_is_not_endless() -> None:
    with pytest.raises(InvalidInput, match=f"retry_mode: .*, got '{'x' * 79}$"):
        check_job(new(retry_mode="x" * 1_000))


def test_what_cannot_show_itself_is_told_by_its_kind() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise KeyError("no")

    with pytest.raises(InvalidInput, match=r"^priority: .*, got a Shy$"):
        check_job(new(priority=Shy()))


def test_of_names_that_are_too_many_the_one_is_told_that_comes_twice() -> None:
    names = tuple(f"tag {number}" for number in range(10_000))
    with pytest.raises(InvalidInput, match=r"^tags: names one twice: 'tag 7'$"):
        check_job(new(tags=(*names, "tag 7")))


def test_advice_on_what_is_too_long_is_given_where_it_makes_sense() -> None:
    with pytest.raises(InvalidInput, match=r"dedupe_key: must be .* 1,000 characters; hash what is longer$"):
        check_job(new(dedupe_key="x" * (KEY_LIMIT + 1)))
    with pytest.raises(InvalidInput, match=r"headers: must be text of at most 1,000 characters$"):
        check_job(new(headers={"h": "x" * (KEY_LIMIT + 1)}))
