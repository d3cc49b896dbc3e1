"""The dashboard beside Django in one ASGI server, for users who are signed in to Django.

application = with_dashboard(get_asgi_application())        # asgi.py
"""

from __future__ import annotations

from typing import Any, Final

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.db import close_old_connections
from django.http import HttpRequest
from django.utils.module_loading import import_string

from windlass.django.program import the_app
from windlass.principal import SCOPES, Principal
from windlass.web.access import LOOPBACK, Access  # the first of the extra `server`, which says what to type without it
from windlass.web.app import web_app

from starlette.applications import Starlette  # isort: skip
from starlette.requests import Request  # isort: skip
from starlette.routing import Mount  # isort: skip
from starlette.types import ASGIApp  # isort: skip

EVERYTHING: Final[frozenset[str]] = frozenset(SCOPES)


def with_dashboard(application: ASGIApp, path: str = "/windlass") -> Starlette:
    """What is below `path` is the dashboard, the rest is `application`. Members of the staff who have the permission
    `windlass.view_job` look, with `windlass.operate_job` they change things, superusers do everything."""
    access = Access(authenticate=_staff, hosts=_hosts())
    return Starlette(routes=[Mount(f"/{path.strip('/')}", web_app(the_app(), access=access)), Mount("/", application)])


async def _staff(request: Request) -> Principal | None:
    key = request.cookies.get(settings.SESSION_COOKIE_NAME)
    return None if key is None else await sync_to_async(_principal)(key)


def _principal(key: str) -> Principal | None:
    """As Django's own middleware would know the user, the check of the session's hash included."""
    close_old_connections()
    try:
        asked: Any = HttpRequest()
        asked.session = import_string(f"{settings.SESSION_ENGINE}.SessionStore")(key)
        user = get_user(asked)
        if not (user.is_active and user.is_staff):
            return None
        if user.is_superuser:
            scopes = EVERYTHING
        else:
            wanted = {"read": "windlass.view_job", "operate": "windlass.operate_job"}
            scopes = frozenset(scope for scope, permission in wanted.items() if user.has_perm(permission))
        return Principal(actor=f"django:{user.get_username()}", scopes=scopes) if scopes else None
    finally:
        close_old_connections()


def _hosts() -> tuple[str, ...]:
    """Those of Django; of a whole domain, its own name. While debugging without any, this machine's."""
    names = tuple(host.lstrip(".") for host in settings.ALLOWED_HOSTS)
    return names or (LOOPBACK if settings.DEBUG else ())
