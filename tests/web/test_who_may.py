"""Who may do what, route by route. A route that is not listed here fails: whoever adds one says who may."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from web.conftest import Desk
from windlass.principal import SCOPES
from windlass.web.access import Access
from windlass.web.route import Route
from windlass.web.routes import ROUTES

EVERYBODY = None
TENANTS = {  # also with a token of one organisation: what it needs
    "POST /api/jobs": "enqueue",
    "GET /api/jobs": "read",
    "GET /api/jobs/{job_id}": "read",
    "GET /api/jobs/{job_id}/runs": "read",
    "GET /api/jobs/{job_id}/logs": "read",
    "GET /api/jobs/{job_id}/why": "read",
    "GET /api/jobs/{job_id}/chain": "read",
    "POST /api/jobs/{job_id}/cancel": "operate",
    "POST /api/jobs/{job_id}/retry": "operate",
    "POST /api/jobs/{job_id}/run-now": "operate",
    "POST /api/jobs/{job_id}/move": "operate",
    "POST /api/jobs/{job_id}/priority": "operate",
    "POST /api/jobs/{job_id}/delete": "operate",
    "GET /api/dlq": "read",
    "GET /api/dlq/errors": "read",
    "POST /api/dlq/replay": "operate",
    "POST /api/dlq/purge": "operate",
    "GET /api/failures": "read",
    "GET /api/matching": "read",
    "POST /api/jobs/bulk": "operate",
    "GET /api/tokens": "admin",
    "POST /api/tokens": "admin",
    "POST /api/tokens/{token}/revoke": "admin",
    "GET /api/audit": "admin",
    "GET /api/usage": "read",
    "GET /api/usage.csv": "read",
    "GET /api/events": "read",
    "GET /api/openapi.json": "read",
    "GET /api/worker/v1": "work",
    "POST /api/worker/v1/claim": "work",
    "POST /api/worker/v1/extend": "work",
    "POST /api/worker/v1/finish": "work",
    "POST /api/worker/v1/wait": "work",
}
WHOLE = {  # only with a token of the whole store
    "POST /api/jobs/tick": "operate",
    "GET /api/overview": "read",
    "GET /api/counts": "read",
    "GET /api/completions": "read",
    "GET /api/queues/trends": "read",
    "GET /api/queues/capacity": "read",
    "GET /api/queues": "read",
    "GET /api/queues/{queue}/order": "read",
    "POST /api/queues/{queue}/pause": "operate",
    "POST /api/queues/{queue}/resume": "operate",
    "GET /api/limits": "read",
    "PUT /api/limits/{key}": "operate",
    "DELETE /api/limits/{key}": "operate",
    "POST /api/limits/{key}/pause": "operate",
    "POST /api/limits/{key}/resume": "operate",
    "GET /api/templates": "read",
    "GET /api/templates/{name}": "read",
    "PUT /api/templates/{name}": "operate",
    "POST /api/templates/{name}/archive": "operate",
    "DELETE /api/templates/{name}": "operate",
    "GET /api/schedules": "read",
    "POST /api/schedules/preview": "read",
    "GET /api/schedules/{name}": "read",
    "PUT /api/schedules/{name}": "operate",
    "PATCH /api/schedules/{name}": "operate",
    "DELETE /api/schedules/{name}": "operate",
    "POST /api/schedules/{name}/pause": "operate",
    "POST /api/schedules/{name}/resume": "operate",
    "POST /api/schedules/{name}/run": "operate",
    "GET /api/groups": "read",
    "GET /api/groups/{group_id}": "read",
    "POST /api/groups/{group_id}/cancel": "operate",
    "POST /api/groups/{group_id}/retry": "operate",
    "GET /api/holds": "read",
    "POST /api/holds": "operate",
    "POST /api/holds/{hold_id}/renew": "operate",
    "POST /api/holds/{hold_id}/release": "operate",
    "GET /api/workers": "read",
    "GET /api/webhooks": "operate",
    "POST /api/webhooks": "admin",
    "GET /api/webhooks/{webhook_id}": "operate",
    "PATCH /api/webhooks/{webhook_id}": "admin",
    "DELETE /api/webhooks/{webhook_id}": "admin",
    "POST /api/webhooks/{webhook_id}/rotate": "admin",
    "POST /api/webhooks/{webhook_id}/ping": "admin",
    "GET /api/webhooks/{webhook_id}/deliveries": "operate",
    "POST /api/webhooks/{webhook_id}/replay": "operate",
    "GET /api/deliveries/{message_id}": "operate",
    "POST /api/deliveries/{message_id}/replay": "operate",
    "GET /metrics": "read",
    **{
        f"POST /api/worker/v1/driver/{call}": "work"
        for call in (
            "enqueue", "settle", "expire", "beat", "lead", "maintain", "alter", "read", "get", "runs", "find", "count",
            "waiting-types", "examine",
        )
    },
}  # fmt: skip
PAGES_OF_TENANTS = {
    "GET /": "read",
    "GET /jobs": "read",
    "GET /live/jobs": "read",
    "POST /jobs/bulk": "operate",
    "GET /jobs/new": "enqueue",
    "POST /jobs/new": "enqueue",
    "GET /jobs/{id}": "read",
    "GET /live/jobs/{id}": "read",
    "GET /jobs/{id}/log": "read",
    "POST /jobs/{id}/cancel": "operate",
    "POST /jobs/{id}/retry": "operate",
    "POST /jobs/{id}/run-now": "operate",
    "POST /jobs/{id}/move": "operate",
    "POST /jobs/{id}/priority": "operate",
    "POST /jobs/{id}/delete": "operate",
    "GET /settings": "read",
}
PAGES_OF_ALL = {
    "GET /live/overview": "read",
    "GET /dead-letters": "read",
    "GET /live/dead-letters": "read",
    "POST /dead-letters/replay": "operate",
    "POST /dead-letters/purge": "operate",
    "GET /schedules": "read",
    "GET /live/schedules": "read",
    "GET /schedules/preview": "read",
    "POST /schedules/save": "operate",
    "POST /schedules/{name}/run": "operate",
    "POST /schedules/{name}/pause": "operate",
    "POST /schedules/{name}/resume": "operate",
    "POST /schedules/{name}/delete": "operate",
    "GET /queues": "read",
    "GET /live/queues": "read",
    "GET /queues/{name}": "read",
    "GET /live/queues/{name}": "read",
    "POST /queues/{name}/pause": "operate",
    "POST /queues/{name}/resume": "operate",
    "POST /queues/{name}/move": "operate",
    "POST /limits": "operate",
    "POST /limits/{key}/pause": "operate",
    "POST /limits/{key}/resume": "operate",
    "POST /limits/{key}/remove": "operate",
    "GET /workers": "read",
    "GET /live/workers": "read",
    "GET /groups": "read",
    "GET /live/groups": "read",
    "GET /groups/{id}": "read",
    "GET /live/groups/{id}": "read",
    "POST /groups/{id}/cancel": "operate",
    "POST /groups/{id}/retry": "operate",
    "GET /templates": "read",
    "POST /templates/save": "operate",
    "GET /templates/{name}": "read",
    "POST /templates/{name}/archive": "operate",
    "POST /templates/{name}/delete": "operate",
    "GET /holds": "read",
    "POST /holds/acquire": "operate",
    "POST /holds/{id}/renew": "operate",
    "POST /holds/{id}/release": "operate",
    "GET /usage": "read",
    "GET /audit": "admin",
    "GET /tokens": "admin",
    "POST /tokens": "admin",
    "POST /tokens/{id}/revoke": "admin",
    "GET /webhooks": "operate",
    "GET /live/webhooks": "operate",
    "GET /live/webhooks/{id}": "operate",
    "POST /webhooks": "admin",
    "GET /webhooks/{id}": "operate",
    "POST /webhooks/{id}": "admin",
    "POST /webhooks/{id}/enable": "admin",
    "POST /webhooks/{id}/disable": "admin",
    "POST /webhooks/{id}/rotate": "admin",
    "POST /webhooks/{id}/ping": "admin",
    "POST /webhooks/{id}/delete": "admin",
    "POST /webhooks/{id}/deliveries/{message}/replay": "operate",
}
TENANTS |= PAGES_OF_TENANTS
WHOLE |= PAGES_OF_ALL
OPEN = {"POST /settings/appearance", "GET /livez", "GET /readyz", "GET /sign-in", "POST /sign-in", "POST /sign-out"}
IMPLIED: dict[str, set[str]] = {"admin": set(SCOPES), "operate": {"operate", "read"}}
ROLES = ("nobody", *SCOPES)


def test_every_route_is_listed_once_with_what_it_needs() -> None:
    listed = {**TENANTS, **WHOLE, **dict.fromkeys(OPEN, EVERYBODY)}
    assert len(listed) == len(TENANTS) + len(WHOLE) + len(OPEN)
    assert {repr(route): route.scope for route in ROUTES} == listed
    assert {repr(route) for route in ROUTES if route.tenants} == set(TENANTS)


def needs(route: Route) -> str | None:
    return {**TENANTS, **WHOLE}.get(repr(route))


class Door:
    """Tokens of every role, for the whole store and for one organisation."""

    def __init__(self) -> None:
        self.desk = Desk(Access())
        self.tokens: dict[tuple[str, bool], str] = {}

    async def make(self) -> None:
        admin = self.desk.web.state.site.admin()
        for scope in SCOPES:
            for narrow in (False, True):
                _, secret = await admin.create_token(f"{scope} {narrow}", [scope], "acme" if narrow else None)
                self.tokens[scope, narrow] = secret

    async def knock(self, client: httpx2.AsyncClient, route: Route, role: str, narrow: bool = False) -> httpx2.Response:
        path = route.path.replace("{", "").replace("}", "")  # a name like any other
        headers = {} if role == "nobody" else {"Authorization": f"Bearer {self.tokens[role, narrow]}"}
        if route.path == "/api/events":
            path += "?job=nobody"  # ends with 404 instead of a stream
        if route.path.startswith("/live/"):
            path += "?nonsense=1"  # refused by whoever was let in, instead of a stream
        return await client.request(route.method, path, headers=headers)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_let_in_where_its_scopes_allow_and_nowhere_else(role: str) -> None:
    async def main() -> None:
        door = Door()
        async with door.desk.app, door.desk.client() as client:
            await door.make()
            for route in ROUTES:
                answer = await door.knock(client, route, role)
                needed = needs(route)
                if needed is None:
                    assert answer.status_code not in (401, 303), route
                elif role == "nobody":
                    assert answer.status_code == (303 if route.is_page and route.method == "GET" else 401), route
                elif needed in IMPLIED.get(role, {role}):
                    assert answer.status_code not in (401, 403), (route, answer.text)
                else:
                    assert answer.status_code == 403, route
                    assert route.is_page or answer.json()["type"] == "urn:windlass:forbidden", route

    asyncio.run(main())


def test_a_token_of_one_organisation_gets_nowhere_else() -> None:
    async def main() -> None:
        door = Door()
        async with door.desk.app, door.desk.client() as client:
            await door.make()
            for route in ROUTES:
                answer = await door.knock(client, route, "admin", narrow=True)
                if repr(route) in WHOLE:
                    assert answer.status_code == 403, route
                else:
                    assert answer.status_code not in (401, 403) or repr(route) in OPEN, (route, answer.text)

    asyncio.run(main())
