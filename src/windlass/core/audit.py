"""The audit log: what is noted of a change: who made it, which action, on what, chosen by which filter, and how many
rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, fields

from windlass.core import alterations as wishes
from windlass.core.acting import By
from windlass.core.alterations import AlterAnswer, Alteration, Note, Unchanged
from windlass.core.changes import storable
from windlass.records import AuditLine
from windlass.types import Micros
from windlass.urls import redacted

NAMED: Final = 100  # of a batch, so many are named one by one
CHANGED: Final = frozenset({"applied", "requested"})

# What nobody has to answer for: that work goes on, or that one came in.
QUIET: Final = (wishes.Grant, wishes.Renew, wishes.NoteUse, wishes.Leave, wishes.TakeDelivery, wishes.EndDelivery)
ACTIONS: Final[dict[type[Any], str]] = {
    wishes.Cancel: "job.cancel", wishes.Replay: "job.retry", wishes.RunNow: "job.run_now", wishes.Move: "job.move",
    wishes.MoveBeside: "job.move", wishes.Swap: "job.swap", wishes.SetPriority: "job.priority",
    wishes.Delete: "job.delete", wishes.Renormalise: "queue.renormalise", wishes.Revoke: "worker.revoke",
    wishes.PutQueue: "queue.put", wishes.PutLimit: "limit.set", wishes.RemoveLimit: "limit.remove",
    wishes.PutGroup: "group.put", wishes.CancelGroup: "group.cancel", wishes.RetryGroup: "group.retry",
    wishes.PutTemplate: "template.put", wishes.ArchiveTemplate: "template.archive",
    wishes.DeleteTemplate: "template.delete", wishes.PutSchedule: "schedule.put",
    wishes.RenameSchedule: "schedule.rename", wishes.DeleteSchedule: "schedule.delete", wishes.Fire: "schedule.fire",
    wishes.Acquire: "hold.acquire", wishes.ReleaseHold: "hold.release", wishes.PutWebhook: "webhook.put",
    wishes.ChangeWebhook: "webhook.change", wishes.RotateSecret: "webhook.rotate",
    wishes.DeleteWebhook: "webhook.delete", wishes.PingWebhook: "webhook.ping", wishes.ReplayDelivery: "webhook.replay",
    wishes.CreateToken: "token.create", wishes.RevokeToken: "token.revoke",
}  # fmt: skip
# The field that says what is changed: the first of these that it has.
_SUBJECTS: Final = (
    "job_id", "group_id", "hold_id", "webhook_id", "token_id", "worker_id", "key", "schedule", "name", "queue",
)  # fmt: skip
# Secrets, and what may hold some; and what says nothing to people.
_UNTOLD: Final = frozenset({"secret", "digest", "params", "param_overrides", "settings", "jobs", "members", "child_id"})


def lines(by: By, changes: Sequence[Alteration], answers: Sequence[AlterAnswer], now: Micros) -> list[AuditLine]:
    """One line for each action of the call, about what was really changed, with everything that it was done to."""
    alike: dict[str, list[Alteration]] = {}
    for wish, answer in zip(changes, answers, strict=True):
        change = wish.change if isinstance(wish, Unchanged) else wish
        if answer in CHANGED and not _is_quiet(change):
            alike.setdefault(action_of(change), []).append(change)
    return [_line(by, action, done, now) for action, done in alike.items()]


def action_of(change: Alteration) -> str:
    """`noun.verb`. A wish that has no words of its own here is called by its name."""
    match change:
        case Note():
            return change.action
        case wishes.SetPaused():
            return "queue.pause" if change.paused else "queue.resume"
        case wishes.PauseLimit():
            return "limit.pause" if change.paused else "limit.resume"
        case wishes.SetEnabled():
            return "schedule.resume" if change.enabled else "schedule.pause"
    return ACTIONS.get(type(change)) or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(change).__name__).lower()


def subject_of(change: Alteration) -> str:
    if isinstance(change, Note):
        return change.subject
    for field in _SUBJECTS:
        value = getattr(change, field, None)
        if isinstance(value, str):
            return f"{action_of(change).partition('.')[0]}:{value}"
    return type(change).__name__


def _line(by: By, action: str, done: Sequence[Alteration], now: Micros) -> AuditLine:
    subjects, count = list(dict.fromkeys(map(subject_of, done))), len(done)
    told: dict[str, Any] = _told(done[0]) if len(done) == 1 else {"subjects": subjects[:NAMED]}
    if isinstance(done[0], Note):
        count = done[0].count
    return AuditLine(
        at=now, actor=by.actor, action=action, org_id=by.org_id, selection=by.selection, count=count,
        subject=subjects[0] if len(subjects) == 1 else f"{len(subjects)} {subjects[0].partition(':')[0]}s",
        detail=msgspec.json.encode(told).decode() if told else None,
    )  # fmt: skip


def _told(change: Struct) -> dict[str, Any]:
    """What was said beyond the subject: whatever is short, plain, not as usual, and no secret."""
    if isinstance(change, Note):
        return {} if change.detail is None else {"note": change.detail}
    subject = next((field for field in _SUBJECTS if isinstance(getattr(change, field, None), str)), "")
    usual = {field.name: field.default for field in fields(change)}
    told: dict[str, Any] = {}
    for name, value in asdict(change).items():
        if name == subject or name in _UNTOLD or value == usual[name]:
            continue
        if isinstance(value, str):
            told[name] = redacted(value) if name == "url" else storable(value)
        elif isinstance(value, int | float | tuple):  # tuples of anything but texts are untold
            told[name] = value
    return told


def _is_quiet(change: Alteration) -> bool:
    """A hold that is ended in somebody's name has a line of its own already."""
    return isinstance(change, QUIET) or (isinstance(change, wishes.ReleaseHold) and change.by is not None)
