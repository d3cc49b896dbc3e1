"""Around every request, also for what does not exist: a correlation id, security headers, and only by a name of ours."""

from __future__ import annotations

import html
import logging
import re
import secrets
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.errors import shown
from windlass.web.access import Access
from windlass.web.encoding import encoded
from windlass.web.problems import MEDIA_TYPE, Trouble, problem_of, trouble_of

log = logging.getLogger("windlass.web")
_GIVEN_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NAME: Final = 60  # characters of a host that are told again
SECURITY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with less, browsers say `Origin: null` for our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Gate:
    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._hosts = {host.lower() for host in access.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        name = headers.get("x-request-id", "")
        scope["windlass.correlation_id"] = name = name if _GIVEN_ID.fullmatch(name) else secrets.token_hex(8)
        begun = False

        async def send_with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                answer = MutableHeaders(scope=message)
                for key, value in SECURITY.items():
                    answer.setdefault(key, value)
                answer["X-Request-Id"] = name
            await send(message)

        try:
            if not self._is_ours(headers.get("host", "")):
                raise UnknownHost(headers.get("host", ""))
            if not scope.get("query_string", b"").isascii():
                raise Trouble(400, "malformed-query", "what is not ASCII in a query string is written as %C3%A9")
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            if begun:
                raise
            as_page = isinstance(error, UnknownHost) and "text/html" in headers.get("accept", "")
            answer = _plain_page(error, name) if as_page else problem_response(error, name)
            await answer(scope, receive, send_with_headers)

    def _is_ours(self, host: str) -> bool:
        return "*" in self._hosts or _without_port(host) in self._hosts


class UnknownHost(Trouble):
    """Whoever called is told by which name, and where it is added: mostly it is the operator, who tries `localhost`."""

    def __init__(self, host: str) -> None:
        name = _without_port(host)
        if not name:
            super().__init__(421, "unknown-host", "the request does not say by which name it asks for this server")
            return
        asked = shown(name if len(name) <= _NAME else f"{name[:_NAME]}…")
        super().__init__(421, "unknown-host", f"this server does not go by {asked}; whoever runs it can add a name: {ADD}")


ADD: Final = (
    "windlass serve --allow-host NAME, or hosts=(…, 'NAME') of Access where a program mounts it (Django: ALLOWED_HOSTS)"
)


def _without_port(host: str) -> str:
    return re.sub(r":\d*$", "", host.lower())


def _plain_page(error: Exception, correlation_id: str) -> Response:
    """For a browser, without our style: under a name that is not ours it gets no style sheet either."""
    problem = problem_of(trouble_of(error), correlation_id)
    title, detail = html.escape(problem.title), html.escape(f"{problem.detail[0].upper()}{problem.detail[1:]}.")
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        f"<title>{title}</title><h1>{title}</h1><p>{detail}</p>"
        f"<p>{problem.status} · correlation id {html.escape(correlation_id)}</p></html>",
        problem.status,
    )


def problem_response(error: Exception, correlation_id: str) -> Response:
    if isinstance(error, HTTPException):  # of static files
        error = Trouble(error.status_code, "no-such-path", "there is nothing at this path")
    trouble = trouble_of(error)
    if trouble.status >= 500:
        log.error("request %s failed", correlation_id, exc_info=error)
    headers = {**trouble.headers, "WWW-Authenticate": "Bearer"} if trouble.status == 401 else trouble.headers
    return Response(encoded(problem_of(trouble, correlation_id)), trouble.status, headers=headers, media_type=MEDIA_TYPE)
