"""The HTTP face of a store: a JSON API and the dashboard, as one ASGI application (`windlass.web.app.web_app`).

A request passes through `gate.py` (headers, Host, limits of size), `answering.py` (who asks, may they, what was said) and
a handler in `api/` or `pages/`, which calls `windlass.admin` and holds no rule. `routes.py` is the table of them all."""

from windlass.extras import needs

needs("server", "starlette", "jinja2")
