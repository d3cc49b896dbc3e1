"""What one web application keeps between requests."""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import Environment

from windlass.admin import Admin
from windlass.app import Windlass
from windlass.principal import Principal
from windlass.web.access import Access
from windlass.web.sessions import Sessions


@dataclass(frozen=True)
class Site:
    app: Windlass
    access: Access
    sessions: Sessions
    templates: Environment

    def admin(self, principal: Principal | None = None) -> Admin:
        """Acting as somebody, or for the server's own questions."""
        return Admin(self.app.client, self.app.tasks or None)


async def verified(admin: Admin, token: str) -> Principal | None:
    """The one to whom a token was given. No store keeps tokens yet, so nobody has one."""
    return None
