"""One event in Sentry for each job that is dead: by a hook, so after it is stored, and never in the way of the work.

Needs the extra `sentry`. Where events go is said by `sentry_sdk.init(...)`, as always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.core.events import DEAD
from windlass.extras import MissingExtra
from windlass.hooks import JobEvent

try:
    import sentry_sdk
except ModuleNotFoundError as error:
    raise MissingExtra("sentry", "sentry_sdk") from error

if TYPE_CHECKING:
    from windlass.app import Windlass


def report_dead_jobs(app: Windlass) -> None:
    """What workers of this app give up on, with task, queue, job and the traceback as it is stored: without secrets."""
    app.on(DEAD)(_report)


def _report(told: JobEvent) -> None:
    sentry_sdk.capture_event(event_of(told))


def event_of(told: JobEvent) -> Any:
    """Failures of one task with one kind of exception are one issue, whatever the message says."""
    kind, _, said = (told.error or "").partition(": ")
    if not said or " " in kind:  # it was rejected, in words
        kind, said = "Reject", told.error or "dead"
    return {
        "level": "error",
        "transaction": told.type,
        "exception": {"values": [{"type": kind, "value": said, "mechanism": {"type": "windlass", "handled": False}}]},
        "fingerprint": ["windlass", told.type, kind],
        "tags": {"windlass.queue": told.queue, "windlass.task": told.type},
        "contexts": {
            "windlass": {
                "job_id": told.job_id, "queue": told.queue, "org": told.org_id, "execution": told.execution,
                "traceback": told.traceback,
            }
        },
    }  # fmt: skip
