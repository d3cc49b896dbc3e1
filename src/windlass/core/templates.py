"""Templates: what they say of their jobs, and the jobs made of them, which are snapshots that later versions do not
change.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from windlass.core.alterations import PutTemplate
from windlass.errors import InvalidInput
from windlass.types import CrashPolicy, History, Micros, NewJob, OnUnknown, RetryMode, Template

_object: Final = msgspec.json.Decoder(dict[str, Any])


class Policies(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The columns of a job that its template gives, besides type, queue and params. Defaults are those of `NewJob`."""

    org_id: str | None = None
    priority: int = 0
    timeout_ns: int = 0
    max_attempts: int = 0
    max_lost: int = 0
    retry_mode: RetryMode = "same_job"
    crash_policy: CrashPolicy = "requeue"
    on_unknown: OnUnknown = "wait"
    history: History = "full"
    retry_policy: str | None = None
    limit_keys: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    headers: dict[str, str] | None = None
    codec: str = "json"

    def encode(self) -> str | None:
        text = msgspec.json.encode(self).decode()
        return None if text == "{}" else text


def policies_of(job: NewJob) -> Policies:
    return Policies(**{name: getattr(job, name) for name in Policies.__struct_fields__})


def decode_policies(template: Template | PutTemplate) -> Policies:
    """The policies of a template, as they are stored (perhaps by hand or by a newer version) or are to be stored."""
    text = template.settings
    try:
        return Policies() if text is None else msgspec.json.decode(text, type=Policies)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(
            "settings", f"of the template {template.name!r} are no policies that this version knows ({error!s:.200})"
        ) from None


def params_in(field: str, stored: object) -> dict[str, Any]:
    """Arguments by name."""
    if not isinstance(stored, bytes):
        raise InvalidInput(field, f"must be bytes, got {type(stored).__name__}")
    try:
        return _object.decode(stored)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(field, f"must be a JSON object of arguments by name ({error})") from None


def merged(params: bytes, overrides: bytes | None) -> bytes:
    """Overrides replace whole arguments, never parts of one."""
    if overrides is None:
        return params
    return msgspec.json.encode({**params_in("params", params), **params_in("param_overrides", overrides)})


def made_of(template: Template, job_id: str, overrides: bytes | None = None) -> NewJob:
    """A job of the template as it stands, with what a schedule overrides."""
    return NewJob(
        id=job_id, type=template.type, queue=template.queue, template_id=template.template_id,
        template_version=template.version, payload=merged(template.params, overrides),
        **asdict(decode_policies(template)),
    )  # fmt: skip


def next_version(before: Template | None, change: PutTemplate, now: Micros) -> Template | None:
    """The version that a change makes; None when it is what there is, and in use."""
    fresh = Template(
        template_id=change.template_id if before is None else before.template_id, version=1, name=change.name,
        type=change.type, queue=change.queue, params=change.params, settings=change.settings, created_at=now,
    )  # fmt: skip
    if before is None:
        return fresh
    if replace(fresh, version=before.version, created_at=before.created_at) == before:
        return None
    return replace(fresh, version=before.version + 1)
