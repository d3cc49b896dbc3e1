"""What one web application keeps between requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from jinja2 import Environment

from windlass.admin import Admin
from windlass.app import Windlass
from windlass.clock import SECOND, ticking
from windlass.principal import Principal
from windlass.types import Micros
from windlass.web.access import Access, is_closed
from windlass.web.bounds import Bounds, Pace
from windlass.web.pulse import Pulse
from windlass.web.sessions import Sessions

if TYPE_CHECKING:
    from windlass.web.route import Route

ADMINS: Final = 256  # that are kept; the one that was not asked for longest makes room


class Site:
    def __init__(
        self, app: Windlass, access: Access, bounds: Bounds, routes: Sequence[Route], templates: Environment
    ) -> None:  # fmt: skip
        self.app: Final = app
        self.access: Final = access
        self.bounds: Final = bounds
        self.routes: Final = routes
        self.templates: Final = templates
        self._admins: dict[Principal | None, Admin] = {}
        self._is_closed = False
        self.sessions: Final = Sessions(self.verify, _ticking)
        self.pace: Final = Pace(bounds, _ticking)
        self.pulse: Final = Pulse(self.admin())
        self.streams: Final[Counter[str]] = Counter()  # open ones, by who reads them
        self.answers: Final[Counter[tuple[str, str, int]]] = Counter()  # by method, path of the route and status

    def admin(self, principal: Principal | None = None) -> Admin:
        """Acting as somebody, or for the server's own questions. It is kept, because what it counted is kept with it."""
        found = self._admins.pop(principal, None) or self._make_admin(principal)
        self._admins[principal] = found
        if len(self._admins) > ADMINS:
            del self._admins[next(iter(self._admins))]
        return found

    def _make_admin(self, principal: Principal | None) -> Admin:
        whole = Admin(self.app.client, self.app.tasks or None)
        if principal is None:
            return whole
        return whole.acting_as(principal.actor, org_id=principal.org_id, queues=principal.queues)

    async def verify(self, token: str) -> Principal | None:
        """The one to whom a token was given."""
        return await self.admin().authenticate(token)

    async def anonymous(self) -> Principal | None:
        """Who a caller without credentials is. A door that a token has closed stays so."""
        if self.access.until_token and not self._is_closed:
            self._is_closed = is_closed(await self.admin().tokens())
        return None if self._is_closed else self.access.anonymous

    def count(self, method: str, path: str, status: int) -> None:
        self.answers[method, path, status] += 1


def _ticking() -> Micros:
    """What must hold while the store is away does not ask its clock."""
    return round(ticking() * SECOND)
