"""`/audit`: who did what. Read only."""

from __future__ import annotations

from windlass.web.answers import Page
from windlass.web.pages.formats import is_job_id, query
from windlass.web.pages.shell import Told, page
from windlass.web.request import Request

ROWS = 50


class Asked(Told, frozen=True, kw_only=True):
    actor: str = ""
    action: str = ""
    subject: str = ""
    cursor: int | None = None


async def show(request: Request[Asked, None]) -> Page:
    asked = request.query
    said = {"actor": asked.actor.strip(), "action": asked.action.strip(), "subject": asked.subject.strip()}
    noun, _, verb = said["action"].partition(".")
    if is_job_id(said["subject"]):  # ids of other things look alike
        said["subject"] = f"{noun or 'job'}:{said['subject']}"
    found = await request.admin.audit(
        limit=ROWS, cursor=asked.cursor, actor=said["actor"] or None, action=said["action"] or None,
        subject=said["subject"] or None,
    )  # fmt: skip
    older = None if found.cursor is None else "/audit" + query({**said, "cursor": found.cursor})
    shown = {
        "found": found, "asked": asked, "older": older, "narrowed": any(said.values()),
        "all_alike": "/audit" + query({**said, "subject": None}) if verb and said["subject"] else None,
    }  # fmt: skip
    return await page(request, "audit.html", "audit", shown)
