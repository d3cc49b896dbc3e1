"""The pages of the dashboard, as lines of the table of routes."""

from __future__ import annotations

from typing import Final

from windlass.web.pages import bulk, dead_letters, job, job_actions, jobs, overview, schedules, session
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
    Route("GET", "/dead-letters", "read", dead_letters.show),
    Route("GET", "/live/dead-letters", "read", dead_letters.live),
    Route("POST", "/dead-letters/replay", "operate", dead_letters.replay),
    Route("POST", "/dead-letters/purge", "operate", dead_letters.purge),
    Route("GET", "/schedules", "read", schedules.show),
    Route("GET", "/live/schedules", "read", schedules.live),
    Route("GET", "/schedules/preview", "read", schedules.preview),
    Route("POST", "/schedules/save", "operate", schedules.save),
    Route("POST", "/schedules/{name}/run", "operate", schedules.run),
    Route("POST", "/schedules/{name}/pause", "operate", schedules.pause),
    Route("POST", "/schedules/{name}/resume", "operate", schedules.resume),
    Route("POST", "/schedules/{name}/delete", "operate", schedules.delete),
    Route("GET", "/sign-in", None, session.ask),
    Route("POST", "/sign-in", None, session.sign_in),
    Route("POST", "/sign-out", None, session.sign_out),
)
