"""What one web application keeps between requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from jinja2 import Environment
from starlette.requests import Request as HttpRequest

from windlass.admin import Admin
from windlass.app import Windlass
from windlass.clock import SECOND, ticking
from windlass.principal import Principal
from windlass.types import Micros
from windlass.web.access import Access, is_closed
from windlass.web.bounds import Bounds, Pace
from windlass.web.pulse import Pulse
from windlass.web.replies import Replies
from windlass.web.sessions import Sessions
from windlass.web.wakeups import Wakeups

if TYPE_CHECKING:
    from windlass.web.route import Route

Who: TypeAlias = tuple[str | None, str]  # `Principal.who`
ADMINS: Final = 256  # that are kept; the one that was not asked for longest makes room


class Site:
    def __init__(
        self, app: Windlass, access: Access, bounds: Bounds, routes: Sequence[Route], templates: Environment,
        trusts_now: bool = False,
    ) -> None:  # fmt: skip
        self.app: Final = app
        self.access: Final = access
        self.bounds: Final = bounds
        self.routes: Final = routes
        self.trusts_now: Final = trusts_now
        self.templates: Final = templates
        self._admins: dict[Principal | None, Admin] = {}
        self._is_closed = False
        self.sessions: Final = Sessions(self.verify, _ticking)
        self.pace: Final = Pace(bounds, _ticking)
        self.pulse: Final = Pulse(self.admin())
        self.wakeups: Final = Wakeups(lambda: app.client.driver)
        self.replies: Final = Replies()
        self.streams: Final[Counter[Who]] = Counter()  # open ones, by who reads them
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
        """The one to whom a token was given. A token that was good once has closed the door, whatever became of it."""
        found = await self.admin().authenticate(token)
        self._is_closed = self._is_closed or (self.access.until_token and found is not None)
        return found

    async def anonymous(self) -> Principal | None:
        """Who a caller without credentials is. A door that a token has closed stays so."""
        if self.access.until_token and not self._is_closed:
            self._is_closed = is_closed(await self.admin().tokens())
        return None if self._is_closed else self.access.anonymous

    def now(self, said: Micros | None) -> Micros:
        """Ours. Somebody else's only where a test has it so: it could make every lease lapse."""
        return said if self.trusts_now and said is not None else self.app.client.now()

    def count(self, method: str, path: str, status: int) -> None:
        self.answers[method, path, status] += 1


def site_of(http: HttpRequest) -> Site:
    return cast("Site", http.app.state.site)


def _ticking() -> Micros:
    """What must hold while the store is away does not ask its clock."""
    return round(ticking() * SECOND)
