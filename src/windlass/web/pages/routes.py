"""The pages of the dashboard, as lines of the table of routes."""

from __future__ import annotations

from typing import Final

from windlass.web.pages import bulk, job, job_actions, jobs, overview, session
from windlass.web.route import Route

PAGES: Final[tuple[Route, ...]] = (
    Route("GET", "/", "read", overview.show),
    Route("GET", "/live/overview", "read", overview.live),
    Route("GET", "/jobs", "read", jobs.show, tenants=True),
    Route("GET", "/live/jobs", "read", jobs.live, tenants=True),
    Route("POST", "/jobs/bulk", "operate", bulk.change, tenants=True),
    Route("GET", "/jobs/{id}", "read", job.show, tenants=True),
    Route("GET", "/live/jobs/{id}", "read", job.live, tenants=True),
    Route("GET", "/jobs/{id}/log", "read", job.log, tenants=True),
    Route("POST", "/jobs/{id}/cancel", "operate", job_actions.cancel, tenants=True),
    Route("POST", "/jobs/{id}/retry", "operate", job_actions.retry, tenants=True),
    Route("POST", "/jobs/{id}/run-now", "operate", job_actions.run_now, tenants=True),
    Route("POST", "/jobs/{id}/move", "operate", job_actions.move, tenants=True),
    Route("POST", "/jobs/{id}/priority", "operate", job_actions.priority, tenants=True),
    Route("POST", "/jobs/{id}/delete", "operate", job_actions.delete, tenants=True),
    Route("GET", "/sign-in", None, session.ask),
    Route("POST", "/sign-in", None, session.sign_in),
    Route("POST", "/sign-out", None, session.sign_out),
)
