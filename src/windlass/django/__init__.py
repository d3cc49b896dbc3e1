"""Windlass in a Django project: put "windlass.django" into INSTALLED_APPS, and write tasks in the `tasks.py` of your apps.

    from windlass.django import app

    @app.task
    def send_receipt(order_id: int) -> None: ...

Jobs are kept in Django's own database, and an enqueue inside of `transaction.atomic()` is part of that transaction.
`WINDLASS` in the settings says where else, and whatever else `Windlass(...)` takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from windlass.extras import needs

if TYPE_CHECKING:
    from windlass.django.program import DjangoApp

    app: DjangoApp

__all__ = ["app"]


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'windlass.django' has no attribute {name!r}")
    needs("django", "django")
    from windlass.django.program import the_app

    return the_app()
