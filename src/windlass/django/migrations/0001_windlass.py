"""The schema of the store, made by Windlass's own steps, over a connection of its own.

It is the same as `windlass migrate`, so a store that was made so is left as it is. Later steps of the schema come with
migrations of their own, that do the same."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations, models

from windlass.django.program import open_store, the_app


def bring_up_to_date(apps: Any, editor: Any) -> None:
    app = the_app()
    if editor.connection.alias == app.conf.database and app.client.url != "memory://":
        app.admin.migrate()
        open_store()


class Migration(migrations.Migration):
    initial = True
    atomic = False  # another connection makes the schema, and would wait for this one
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar = [
        migrations.RunPython(bring_up_to_date, migrations.RunPython.noop),
        migrations.CreateModel(
            "Job",
            [("id", models.CharField(max_length=200, primary_key=True, serialize=False))],
            {
                "managed": False, "default_permissions": ("view",), "verbose_name": "job", "verbose_name_plural": "jobs",
                "permissions": [("operate_job", "Can change jobs in the dashboard")],
            },
        ),
    ]  # fmt: skip
