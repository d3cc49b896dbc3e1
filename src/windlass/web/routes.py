"""The table of all routes. Routing, the OpenAPI description and the test of who may do what are made from it."""

from __future__ import annotations

from typing import Final

from windlass.web.api import (
    dead_letters,
    description,
    enqueueing,
    events,
    groups,
    health,
    holds,
    jobs,
    limits,
    metrics,
    queues,
    schedules,
    templates,
    workers,
)
from windlass.web.pages import overview, session
from windlass.web.route import Route

API: Final[tuple[Route, ...]] = (
    Route("POST", "/api/jobs", "enqueue", enqueueing.enqueue, tenants=True, status=201),
    Route("GET", "/api/jobs", "read", jobs.listed, tenants=True),
    Route("POST", "/api/jobs/tick", "operate", workers.tick),
    Route("GET", "/api/jobs/{job_id}", "read", jobs.show, tenants=True),
    Route("GET", "/api/jobs/{job_id}/runs", "read", jobs.runs, tenants=True),
    Route("GET", "/api/jobs/{job_id}/logs", "read", jobs.logs, tenants=True),
    Route("GET", "/api/jobs/{job_id}/why", "read", jobs.why, tenants=True),
    Route("GET", "/api/jobs/{job_id}/chain", "read", jobs.chain, tenants=True),
    Route("POST", "/api/jobs/{job_id}/cancel", "operate", jobs.cancel, tenants=True),
    Route("POST", "/api/jobs/{job_id}/retry", "operate", jobs.retry, tenants=True),
    Route("POST", "/api/jobs/{job_id}/run-now", "operate", jobs.run_now, tenants=True),
    Route("POST", "/api/jobs/{job_id}/move", "operate", jobs.move, tenants=True),
    Route("POST", "/api/jobs/{job_id}/priority", "operate", jobs.priority, tenants=True),
    Route("POST", "/api/jobs/{job_id}/delete", "operate", jobs.delete, tenants=True),
    Route("GET", "/api/dlq", "read", dead_letters.listed, tenants=True),
    Route("GET", "/api/dlq/errors", "read", dead_letters.errors, tenants=True),
    Route("POST", "/api/dlq/replay", "operate", dead_letters.replay, tenants=True),
    Route("POST", "/api/dlq/purge", "operate", dead_letters.purge, tenants=True),
    Route("GET", "/api/queues", "read", queues.listed),
    Route("GET", "/api/queues/{queue}/order", "read", queues.order),
    Route("POST", "/api/queues/{queue}/pause", "operate", queues.pause),
    Route("POST", "/api/queues/{queue}/resume", "operate", queues.resume),
    Route("GET", "/api/limits", "read", limits.listed),
    Route("PUT", "/api/limits/{key}", "operate", limits.put),
    Route("DELETE", "/api/limits/{key}", "operate", limits.remove),
    Route("POST", "/api/limits/{key}/pause", "operate", limits.pause),
    Route("POST", "/api/limits/{key}/resume", "operate", limits.resume),
    Route("GET", "/api/templates", "read", templates.listed),
    Route("GET", "/api/templates/{name}", "read", templates.versions),
    Route("PUT", "/api/templates/{name}", "operate", templates.put),
    Route("POST", "/api/templates/{name}/archive", "operate", templates.archive),
    Route("DELETE", "/api/templates/{name}", "operate", templates.delete),
    Route("GET", "/api/schedules", "read", schedules.listed),
    Route("POST", "/api/schedules/preview", "read", schedules.preview),
    Route("GET", "/api/schedules/{name}", "read", schedules.show),
    Route("PUT", "/api/schedules/{name}", "operate", schedules.put),
    Route("PATCH", "/api/schedules/{name}", "operate", schedules.update),
    Route("DELETE", "/api/schedules/{name}", "operate", schedules.delete),
    Route("POST", "/api/schedules/{name}/pause", "operate", schedules.pause),
    Route("POST", "/api/schedules/{name}/resume", "operate", schedules.resume),
    Route("POST", "/api/schedules/{name}/run", "operate", schedules.run),
    Route("GET", "/api/groups", "read", groups.listed),
    Route("GET", "/api/groups/{group_id}", "read", groups.show),
    Route("POST", "/api/groups/{group_id}/cancel", "operate", groups.cancel),
    Route("POST", "/api/groups/{group_id}/retry", "operate", groups.retry),
    Route("GET", "/api/holds", "read", holds.listed),
    Route("POST", "/api/holds", "operate", holds.acquire, status=201),
    Route("POST", "/api/holds/{hold_id}/renew", "operate", holds.renew),
    Route("POST", "/api/holds/{hold_id}/release", "operate", holds.release),
    Route("GET", "/api/workers", "read", workers.listed),
    Route("GET", "/api/events", "read", events.stream, tenants=True),
    Route("GET", "/api/openapi.json", "read", description.openapi, tenants=True),
    Route("GET", "/livez", None, health.live),
    Route("GET", "/readyz", None, health.ready),
    Route("GET", "/metrics", "read", metrics.scrape),
)

PAGES: Final[tuple[Route, ...]] = (
    Route("GET", "/", "read", overview.show),
    Route("GET", "/sign-in", None, session.ask),
    Route("POST", "/sign-in", None, session.sign_in),
    Route("POST", "/sign-out", None, session.sign_out),
)

ROUTES: Final = (*API, *PAGES)
