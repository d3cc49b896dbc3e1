"""Everything a person or a service may ask of a store: the one service under the command line and the web API.

What it answers is in `windlass.admin.views`."""

from windlass.admin.service import Admin
from windlass.admin.views import Filter

__all__ = ["Admin", "Filter"]
