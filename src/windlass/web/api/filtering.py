"""Which jobs, in a query string or in a body."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import asdict

from windlass.admin.views import Filter
from windlass.clock import duration
from windlass.types import Label
from windlass.web.api.asking import Instant, Words


class Which(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All jobs, but for what is said here."""

    state: Annotated[str | None, Meta(description="a state, a label such as scheduled, or a word of `words`")] = None
    label: Label | None = None
    queue: str | None = None
    queues: Annotated[tuple[str, ...], Meta(description="any of them")] = ()
    type: str | None = None
    org_id: str | None = None
    tag: str | None = None
    group_id: str | None = None
    schedule: Annotated[str | None, Meta(description="its name or its id")] = None
    worker_id: Annotated[str | None, Meta(description="who runs it, or ran it last")] = None
    created_from: Instant | None = None
    created_until: Instant | None = None
    finished_from: Instant | None = None
    finished_until: Instant | None = None
    error: Annotated[str | None, Meta(description="a fingerprint, or a part of the last error's text")] = None
    fingerprint: Annotated[str | None, Meta(description="of the last error: one group of /api/dlq/errors, exactly")] = None
    older_than: Annotated[str | None, Meta(description="finished, else created, at least so long ago, such as 7d")] = None
    words: Words = None


def filter_of(said: Which) -> Filter:
    fields = {name: value for name, value in asdict(said).items() if name in Which.__struct_fields__}
    system, age = fields.pop("words"), fields.pop("older_than")
    return Filter(**fields, system=system, older_than=None if age is None else duration(age, field="older_than"))
