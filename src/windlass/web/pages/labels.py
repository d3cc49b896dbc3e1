"""States and kinds as words, glyphs and colours. Colour is never alone: each has a glyph and a word of its own."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from windlass.admin.views import JobView
from windlass.admin.webhooks import DeliveryView


class Mark(Struct, frozen=True):
    """`tone` is a class of the style sheet, `icon` a symbol of the sprite."""

    word: str
    tone: str
    icon: str


LABELS: Final = {
    "queued": Mark("Ready", "is-ready", "ready"),
    "scheduled": Mark("Scheduled", "is-scheduled", "clock"),
    "blocked": Mark("Blocked", "is-blocked", "blocked"),
    "parked": Mark("Parked", "is-blocked", "blocked"),
    "claimed": Mark("Claimed", "is-running", "running"),
    "running": Mark("Running", "is-running", "running"),
    "succeeded": Mark("Succeeded", "is-succeeded", "check"),
    "dead": Mark("Dead", "is-dead", "x"),
    "cancelled": Mark("Cancelled", "is-cancelled", "cancel"),
}
DEAD_KINDS: Final = {
    "exhausted": "Retries used up", "rejected": "Rejected", "lost": "Workers lost", "superseded": "Replaced by retry",
}  # fmt: skip
RUNS: Final = {
    "completed": Mark("Succeeded", "is-succeeded", "check"),
    "failed": Mark("Failed", "is-dead", "x"),
    "skipped": Mark("Skipped", "is-cancelled", "cancel"),
    None: Mark("Running", "is-running", "running"),
}
GROUPS: Final = {
    "running": LABELS["running"], "succeeded": LABELS["succeeded"], "cancelled": LABELS["cancelled"],
    "failed": Mark("Failed", "is-dead", "x"), "waiting": Mark("Waiting", "is-ready", "ready"),
    "pending": Mark("Waiting", "is-ready", "ready"), "completed": LABELS["succeeded"],
    "partial": Mark("Partly done", "is-blocked", "warn"),
}  # fmt: skip
# A message to a webhook, and the webhook by its last one.
DELIVERIES: Final = {
    "queued": Mark("Waiting", "is-ready", "ready"), "again": Mark("Retrying", "is-scheduled", "clock"),
    "sending": Mark("Sending", "is-running", "running"), "sent": Mark("Sent", "is-succeeded", "check"),
    "failed": Mark("Failed", "is-dead", "x"),
}  # fmt: skip
EVENTS: Final = {
    "job.succeeded": "a job ran well", "job.retried": "it failed and runs again", "job.dead": "it failed for good",
    "job.cancelled": "somebody stopped it", "job.recovered": "its worker was lost", "group.finished": "all its jobs ended",
    "schedule.missed": "it came late", "queue.unhealthy": "too much waits or fails",
}  # fmt: skip
# One reason of "why is it not running", by its kind.
WHY: Final = {
    "time": ("is-scheduled", "clock"), "backoff": ("is-scheduled", "clock"), "running": ("is-running", "running"),
    "claimed": ("is-running", "running"), "next": ("is-succeeded", "check"), "no worker": ("is-dead", "warn"),
    "not served": ("is-dead", "warn"), "unknown type": ("is-dead", "warn"), "lapsed": ("is-dead", "warn"),
    "backlog": ("is-cancelled", "jobs"), "busy": ("is-cancelled", "workers"), "held": ("is-blocked", "lock"),
    "paused": ("is-blocked", "pause"), "predecessor": ("is-blocked", "groups"), "ended": ("is-cancelled", "check"),
}  # fmt: skip


def mark(label: str) -> Mark:
    return LABELS.get(label) or Mark(label.capitalize(), "is-cancelled", "ready")


def dead_kind(kind: str | None) -> str:
    return DEAD_KINDS.get(kind or "", "Dead")


def run_mark(status: str | None) -> Mark:
    return RUNS[status]


def group_mark(status: str) -> Mark:
    return GROUPS.get(status.lower()) or mark(status)


def delivery_mark(one: DeliveryView) -> Mark:
    if one.sending:
        return DELIVERIES["sending"]
    return DELIVERIES["again" if one.status == "queued" and one.attempts else one.status]


def webhook_mark(enabled: bool, failing: bool) -> Mark:
    if not enabled:
        return Mark("Off", "is-blocked", "pause")
    return Mark("Failing", "is-dead", "warn") if failing else Mark("On", "is-succeeded", "check")


def event_words(event: str) -> str:
    return EVENTS.get(event, "")


def why_mark(kind: str) -> tuple[str, str]:
    return WHY.get(kind, ("is-blocked", "blocked"))


def takes(job: JobView) -> tuple[str, ...]:
    """What a person can do with a job as it is, the likely one first."""
    if job.superseded_by is not None:
        return ()
    match job.label:
        case "scheduled":
            return ("run-now", "cancel", "move", "priority")
        case "queued" | "blocked" | "parked":
            return ("cancel", "move", "priority")
        case "running" | "claimed":
            return ("cancel",)
        case "dead" | "cancelled":
            return ("retry", "delete")
        case _:
            return ("delete",)


FILTERS: Final = {
    "mark": mark, "dead_kind": dead_kind, "run_mark": run_mark, "group_mark": group_mark, "why_mark": why_mark,
    "takes": takes, "delivery_mark": delivery_mark, "webhook_mark": webhook_mark, "event_words": event_words,
}  # fmt: skip
