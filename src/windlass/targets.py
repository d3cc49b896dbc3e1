"""The name by which another process can import an app: `module:attribute`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from windlass.errors import InvalidInput
from windlass.tasks import Task


def target_of(app: object, tasks: Sequence[Task[..., Any]], given: str | None) -> str:
    """The name that was given, else one under which an imported module holds the app. `tasks` are those that need it."""
    if given is not None:
        return given
    scripted = [task.name for task in tasks if task.function.__module__ == "__main__"]
    if scripted:
        raise InvalidInput(
            "run", f"{scripted[0]} is a process task of the script that was started (__main__), which a child cannot "
            "import; start its worker with `windlass worker FILE.py`, or move the task to a module that the script imports"
        )  # fmt: skip
    for name, module in list(sys.modules.items()):
        if name != "__main__":
            for key, value in list(getattr(module, "__dict__", {}).items()):
                if value is app:
                    return f"{name}:{key}"
    raise InvalidInput(
        "target", f"{tasks[0].name} is a process task, and no imported module holds this app under a name by which a child "
        "process could import it; name one: app.run(target='module:app')"
    )  # fmt: skip
