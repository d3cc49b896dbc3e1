"""What is asked of a dashboard and its API: every page and everything that can be read, in the ways that matter.

Each line is a route of the table; a route that is not here is not measured, and `unasked` names it. Names in braces are
looked up in the store before anything is timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from windlass.web.routes import ROUTES

ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "/": ("", "?span=6h", "?span=24h&latency=run", "?span=7d"),
    "/live/overview": ("",),
    "/jobs": (
        "", "?state=queued", "?state=scheduled", "?state=blocked", "?state=parked", "?state=running", "?state=succeeded",
        "?state=dead", "?state=cancelled", "?queue=q4", "?type=rare", "?org=org77", "?org=nobody", "?tag=tag5", "?tag=no",
        "?worker=worker-7", "?created=1h", "?error=Timeout", "?error=nothing+like+it", "?state=succeeded&tag=no",
        "?group=large", "?schedule=nightly-1", "?q=task7", "?state=scheduled&tag=no",
    ),
    "/live/jobs": ("?state=queued",),
    "/jobs/new": ("",),
    "/jobs/{id}": ("", "{dead}", "{queued}", "{scheduled}", "{running}", "{blocked}", "{parked}"),
    "/live/jobs/{id}": ("{running}",),
    "/jobs/{id}/log": ("",),
    "/dead-letters": ("", "?by=type", "?by=list", "?span=1h", "?span=7d", "?queue=q4", "?error=Timeout"),
    "/live/dead-letters": ("",),
    "/schedules": ("", "?edit=nightly-3"),
    "/live/schedules": ("",),
    "/schedules/preview": ("?cron=0+3+*+*+*&tz=Europe/Berlin",),
    "/queues": ("",),
    "/live/queues": ("",),
    "/queues/{name}": ("",),
    "/live/queues/{name}": ("",),
    "/workers": ("",),
    "/live/workers": ("",),
    "/groups": ("",),
    "/live/groups": ("",),
    "/groups/{id}": ("", "large"),
    "/live/groups/{id}": ("large",),
    "/templates": ("",),
    "/templates/{name}": ("",),
    "/holds": ("",),
    "/usage": ("", "?span=24h&by=type", "?span=30d&by=org"),
    "/audit": ("", "?actor=token:rare", "?action=token", "?subject=job:job-7"),
    "/tokens": ("",),
    "/webhooks": ("",),
    "/live/webhooks": ("",),
    "/webhooks/{id}": ("", "wh_1?status=failed"),
    "/live/webhooks/{id}": ("",),
    "/settings": ("",),
    "/sign-in": ("",),
    "/api/jobs": (
        "", "?first=oldest", "?limit=200", "?label=queued", "?label=queued&first=oldest", "?label=scheduled",
        "?label=blocked", "?label=parked", "?state=running", "?state=succeeded", "?state=succeeded&first=oldest",
        "?state=succeeded&{deep}", "?state=dead", "?state=cancelled", "?state=dlq&words=taskharbor", "?queue=q4",
        "?label=queued&queue=q4", "?state=dead&queue=q4", "?type=task7", "?type=rare", "?org_id=org77", "?org_id=nobody",
        "?tag=tag5", "?tag=no", "?group_id=g5", "?group_id=large", "?schedule=nightly-1", "?worker_id=worker-7",
        "?worker_id=worker-7&state=running", "?created_from={hour}", "?created_until={day}",
        "?created_from={days}&created_until={day}", "?created_from={hour}&tag=no", "?finished_from={hour}",
        "?error=Timeout", "?state=dead&error=Timeout", "?error=nothing+like+it", "?state=dead&error=0123abcd",
        "?label=scheduled&tag=no", "?label=queued&org_id=nobody", "?state=succeeded&tag=no", "?older_than=3d",
    ),
    "/api/jobs/{job_id}": ("", "{dead}", "{queued}"),
    "/api/jobs/{job_id}/runs": ("",),
    "/api/jobs/{job_id}/logs": ("",),
    "/api/jobs/{job_id}/why": ("{queued}", "{scheduled}", "{blocked}", "{parked}"),
    "/api/jobs/{job_id}/chain": ("",),
    "/api/dlq": ("", "?queue=q4", "?error=Timeout", "?tag=no"),
    "/api/dlq/errors": ("", "?by=type", "?queue=q4"),
    "/api/failures": ("", "?span=24h", "?span=7d"),
    "/api/matching": ("", "?state=dead&queue=q4", "?tag=tag5", "?state=queued", "?state=succeeded", "?error=Timeout"),
    "/api/overview": ("", "?span=6h", "?span=24h", "?span=7d"),
    "/api/counts": ("", "?exact=true"),
    "/api/completions": ("",),
    "/api/queues": ("",),
    "/api/queues/trends": ("", "?span=7d"),
    "/api/queues/capacity": ("",),
    "/api/worker/v1": ("",),
    "/api/queues/{queue}/order": ("",),
    "/api/limits": ("",),
    "/api/templates": ("",),
    "/api/templates/{name}": ("",),
    "/api/schedules": ("",),
    "/api/schedules/{name}": ("",),
    "/api/groups": ("", "?limit=200"),
    "/api/groups/{group_id}": ("", "large"),
    "/api/holds": ("",),
    "/api/workers": ("",),
    "/api/webhooks": ("",),
    "/api/webhooks/{webhook_id}": ("",),
    "/api/webhooks/{webhook_id}/deliveries": ("", "?status=failed"),
    "/api/deliveries/{message_id}": ("",),
    "/api/tokens": ("",),
    "/api/audit": ("", "?actor=token:rare", "?action=token", "?subject=job:job-7", "?actor=token:service-7"),
    "/api/usage": ("", "?step=hour&by=queue", "?step=all&by=org&by=type&limit=10000", "?org=org77"),
    "/api/usage.csv": ("?step=day&by=type",),
    "/api/events": ("", "?job={running}"),
    "/api/openapi.json": ("",),
    "/livez": ("",),
    "/readyz": ("",),
    "/metrics": ("",),
}  # fmt: skip

NAMES: Final = {  # what a name in the path of a route stands for, unless an address says otherwise
    "id": "{succeeded}", "job_id": "{succeeded}", "name": "q3", "queue": "q3", "group_id": "g5", "webhook_id": "wh_1",
    "message_id": "{message}",
}  # fmt: skip
OTHERWISE: Final = {
    "/groups/{id}": "g5", "/webhooks/{id}": "wh_1", "/live/webhooks/{id}": "wh_1", "/templates/{name}": "template-3",
    "/api/templates/{name}": "template-3",
    "/api/schedules/{name}": "nightly-3",
}  # fmt: skip


def unasked() -> set[str]:
    """What can be read and is not measured."""
    return {route.path for route in ROUTES if route.method == "GET"} - ASKED.keys()


def addresses(path: str) -> list[str]:
    """The addresses of a route. One that does not begin with a question mark says what its name in braces is."""
    found = []
    for asked in ASKED[path]:
        name, mark, query = asked.partition("?")
        found.append(_named(path, name) + mark + query)
    return found


def _named(path: str, name: str) -> str:
    before, brace, rest = path.partition("{")
    if not brace:
        return path
    kind, _, behind = rest.partition("}")
    return before + (name or OTHERWISE.get(path) or NAMES[kind]) + behind
