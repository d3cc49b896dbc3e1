"""Checks of queries, before a store is asked. A field means the same in every query, so its name says how it is checked;
a field may be None if that is its default, unless it is listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, get_args

from msgspec import Struct
from msgspec.structs import fields

from windlass.core.fields import check_characters, check_flag, check_limit, check_number, check_one_of
from windlass.core.listing import GlimpseJobs, ListJobs, TallyJobs, check_said, check_search
from windlass.errors import InvalidInput, shown
from windlass.records import DeliveryStatus
from windlass.types import STATES

Check = Callable[[str, object], None]
STATUSES: Final = frozenset(get_args(DeliveryStatus))


def check_query(query: Struct) -> None:
    if isinstance(query, ListJobs | GlimpseJobs | TallyJobs):
        check_search(query)
    for field, check, may_be_none in _checks(type(query)):
        value = getattr(query, field)
        if value is not None or not may_be_none:
            check(field, value)


def check_ids(ids: Iterable[object]) -> None:
    for job_id in ids:
        check_characters("id", job_id)


@lru_cache(maxsize=256)
def _checks(kind: type[Struct]) -> tuple[tuple[str, Check, bool], ...]:
    if issubclass(kind, ListJobs | GlimpseJobs | TallyJobs):  # the same names mean something else there
        return ()
    return tuple((one.name, CHECKS[one.name], one.default is None) for one in fields(kind) if one.name in CHECKS)


def _check_texts(field: str, values: object) -> None:
    if not isinstance(values, tuple | list):  # a text is a sequence of characters
        raise InvalidInput(field, f"must be a sequence of texts, got {shown(values)}")
    for value in values:
        check_characters(field, value)


def _check_minutes(field: str, values: object) -> None:
    if not isinstance(values, tuple | list):
        raise InvalidInput(field, f"must be a sequence of moments, got {shown(values)}")
    for value in values:
        check_said(field, value)


def _check_state(field: str, value: object) -> None:
    check_one_of(field, value, frozenset(STATES))


def _check_states(field: str, values: object) -> None:
    _check_texts(field, values)
    for value in values:  # type: ignore[attr-defined] # it is a sequence of texts
        _check_state(field, value)


def _check_digest(field: str, value: object) -> None:
    if not isinstance(value, bytes):
        raise InvalidInput(field, f"must be bytes, got {type(value).__name__}")


CHECKS: Final[dict[str, Check]] = {
    **dict.fromkeys(("since", "until", "by", "now"), check_said),
    **dict.fromkeys(("before", "after", "most", "jobs", "step", "event_id"), check_number),
    **dict.fromkeys(("limit", "each", "members"), lambda field, value: check_limit(value, field)),
    **dict.fromkeys(("ids", "keys", "queues", "types", "webhooks"), _check_texts),
    **dict.fromkeys(("superseded", "by_org", "by_queue", "by_type", "by_outcome"), check_flag),
    **dict.fromkeys(
        "job_id group_id webhook_id worker_id org_id retry_of token queue type name actor action subject".split(),
        check_characters,
    ),
    "minutes": _check_minutes,
    "state": _check_state,
    "states": _check_states,
    "status": lambda field, value: check_one_of(field, value, STATUSES),
    "digest": _check_digest,
}
