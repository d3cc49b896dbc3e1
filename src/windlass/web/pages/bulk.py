"""`POST /jobs/bulk`: one change to a selection of jobs, or to all that match the filter. The store says first how many."""

from __future__ import annotations

from typing import Final

from windlass.admin.bulk import Action
from windlass.web.answers import Page, Redirect
from windlass.web.pages.filters import Chosen, address, filter_of
from windlass.web.pages.formats import plural
from windlass.web.pages.shell import ask, done
from windlass.web.problems import Trouble
from windlass.web.request import Request

_ASKED: Final[dict[Action, tuple[str, str]]] = {
    "retry": ("Retry", "Dead jobs return to their queues with a fresh set of attempts."),
    "run-now": ("Run now", "Those that are scheduled skip their wait. Limits and pauses still apply."),
    "cancel": ("Cancel", "Queued jobs stop at once. Running jobs are asked to stop and keep their history."),
    "delete": ("Delete", "Their runs, logs and results go with them. This cannot be undone."),
    "move": ("Move", "They run next within their queue and priority."),
}


class Selection(Chosen, frozen=True, kw_only=True):
    action: Action
    ids: tuple[str, ...] = ()
    every: bool = False  # all that match the filter, instead of the ones that are ticked
    sure: bool = False


async def change(request: Request[None, Selection]) -> Page | Redirect:
    said = request.body
    if not said.ids and not said.every:
        raise Trouble(422, "invalid-input", "no job is selected", field="ids")
    wanted = filter_of(said, request.app.client.now()) if said.every else said.ids
    limit, to = request.bounds.sweep, "top" if said.action == "move" else None
    back = address(said)
    if not said.sure:
        found = await request.admin.bulk(said.action, wanted, dry_run=True, limit=limit, to=to)  # type: ignore[arg-type]
        if not found.matched:
            return done(back, "nothing")
        word, text = _ASKED[said.action]
        count = plural(found.matched, "job") if found.exact else f"{found.matched:,} or more jobs"
        more = f" At most {limit:,} are changed at once." if found.matched > limit or not found.exact else ""
        question = f"{word.removesuffix(' now')} {count}{' now' if word.endswith('now') else ''}?"
        return await ask(
            request, "jobs", question, text + more, f"{word}: {count}", back=back, danger=said.action == "delete"
        )
    reason = f"cancelled by {request.principal.actor}"
    changed = await request.admin.bulk(said.action, wanted, limit=limit, reason=reason, to=to)  # type: ignore[arg-type]
    return done(back, "bulk", len(changed.done), len(changed.left) or None)
