"""What is in a busy store beside jobs and runs: samples, a fleet, schedules, webhooks with their messages, tokens, an audit
log. Rows with times in microseconds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from pages_ink import Ink

QUEUES: Final = 20
TYPES: Final = 50
WORKERS: Final = 40
SCHEDULES: Final = 30
WEBHOOKS: Final = 10
TOKENS: Final = 200
WEEK: Final = 7 * 1_440  # minutes
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND

Rows = Iterator[tuple[Any, ...]]


def fill_rest(ink: Ink, jobs: int, now: int) -> None:
    """As much of it as goes with so many jobs: of a million, a week of samples."""
    ink.insert("queue_stats", "queue, minute, depth, oldest, finished, waits, runs", samples(min(WEEK, jobs // 50), now))
    ink.insert("queues", "name, paused_at, created_at, updated_at", queues(now))
    ink.insert(
        "workers", "id, hostname, pid, pool_size, version, queues, types, running, started_at, last_heartbeat", fleet(now)
    )
    ink.insert("limits", "key, max_used", limits())
    ink.insert("templates", "template_id, version, name, type, queue, params, created_at", templates(now))
    ink.insert(
        "schedules", "schedule_id, template_id, name, cron_expression, timezone, next_trigger_at, created_at, updated_at",
        schedules(now),
    )  # fmt: skip
    ink.insert(
        "reservations",
        "reservation_id, queue, reserved_by, status, reserved_at, granted_at, expires_at, ended_at",
        holds(jobs // 500, now),
    )
    ink.insert("webhooks", "webhook_id, url, events, secret, org_id, created_at", webhooks(now))
    ink.insert("outbox", "event, job_id, org_id, body, created_at, fanned_at", events(jobs // 10, now))
    ink.insert(
        "deliveries",
        "event_id, webhook_id, status, attempts, next_attempt_at, finished_at, response, log"
        + (", event_at" if ink.parts_by_event else ""),
        deliveries(jobs // 10, now, dated=ink.parts_by_event),
    )
    ink.insert("api_tokens", "token_id, name, digest, scopes, org_id, created_at", tokens(now))
    ink.insert("audit", "at, actor, action, subject, detail, org_id, selection, count", audit(jobs * 3 // 10, now))


def samples(minutes: int, now: int) -> Rows:
    end = now - now % MINUTE
    for back in range(1, minutes + 1):
        for queue in range(QUEUES):
            yield sample(queue, end - back * MINUTE, 50 + (queue * 37 + back * 13) % 200)


def sample(queue: int, minute: int, busy: int) -> tuple[Any, ...]:
    """depth, oldest, finished, waits, runs of one queue and minute, plain and a little different each time."""
    depth = {"queued": busy % 90, "scheduled": 1_500, "running": busy % 20, "dead": 700 + queue}
    finished = {"completed": busy, "failed": busy // 40, "skipped": busy // 90}
    spread = json.dumps({str(7 + (busy + n) % 12): busy // 6 + n for n in range(6)})
    return f"q{queue}", minute, json.dumps(depth), busy * 10_000, json.dumps(finished), spread, spread


def queues(now: int) -> Rows:
    for n in range(QUEUES):
        yield f"q{n}", now if n == QUEUES - 1 else None, now, now


def fleet(now: int) -> Rows:
    queues, types = json.dumps([f"q{n}" for n in range(QUEUES)]), json.dumps([f"task{n}" for n in range(TYPES)])
    for n in range(WORKERS):
        yield f"worker-{n}", f"host-{n % 8}", 1_000 + n, 10, "0.1", queues, types, 5, now - 600 * MINUTE, now


def limits() -> Rows:
    for n in range(QUEUES // 2):
        yield f"queue:q{n}", 50
    for n in range(50):
        yield f"org:org{n}", 5
    yield "tag:all", 10


def templates(now: int) -> Rows:
    for n in range(TYPES):
        for version in (1, 2, 3):
            yield f"template-{n}", version, f"template-{n}", f"task{n}", f"q{n % QUEUES}", b'{"args":{}}', now


def schedules(now: int) -> Rows:
    for n in range(SCHEDULES):
        zone = "Europe/Berlin" if n % 3 else "UTC"
        yield f"schedule-{n}", f"template-{n}", f"nightly-{n}", f"{n} 3 * * *", zone, now + (n + 1) * MINUTE, now, now


def holds(ended: int, now: int) -> Rows:
    for n in range(ended):
        at = now - (ended - n) * MINUTE
        yield f"hold-{n}", f"q{n % QUEUES}", "deploy", "RELEASED", at, at, at + 10 * MINUTE, at + MINUTE
    yield "hold-now", "q1", "deploy", "ACTIVE", now, now, now + 600 * MINUTE, None


def webhooks(now: int) -> Rows:
    for n in range(WEBHOOKS):
        secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105  # of a receiver that is not there
        yield f"wh_{n}", f"https://receiver.invalid/{n}", json.dumps(["job.dead"]), secret, None, now


def events(number: int, now: int) -> Rows:
    for n in range(1, number + 1):
        at = now - (number - n) * SECOND
        yield "job.dead", f"job-{n}", f"org{n % 500}", json.dumps({"job_id": f"job-{n}", "error": "Timeout"}), at, at


def deliveries(number: int, now: int, *, dated: bool) -> Rows:
    """`dated`: each with the time of its event."""
    for n in range(1, number + 1):
        at = now - (number - n) * SECOND
        status = "queued" if n > number - 100 else "failed" if n % 90 == 0 else "sent"
        log = json.dumps([[at, 120_000, 200 if status == "sent" else 503, None]])
        waits = status == "queued"
        row = (n, f"wh_{n % WEBHOOKS}", status, 1, now if waits else None, None if waits else at, "ok", log)
        yield (*row, at) if dated else row


def tokens(now: int) -> Rows:
    for n in range(TOKENS):
        yield f"token-{n}", f"service-{n}", n.to_bytes(32, "big"), json.dumps(["read"]), None, now


def audit(lines: int, now: int) -> Rows:
    for n in range(lines):
        actor = "token:rare" if n == 5 else f"token:service-{n % TOKENS}"
        action = "token.create" if n == 5 else ("job.cancel", "job.retry", "queue.pause")[n % 3]
        subject = f"job:job-{n}" if n % 3 < 2 else f"queue:q{n % QUEUES}"
        yield now - (lines - n) * SECOND, actor, action, subject, None, f"org{n % 500}", None, 1
