"""The app that a person named, on the command line or in the settings of their tests: `module:attribute`, `module`, or a
path to a `.py` file.

This is the one place that imports a module by its name. The name is what somebody typed, never something stored.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from windlass.app import Windlass
from windlass.errors import BrokenModule, InvalidInput
from windlass.telling import a
from windlass.words import did_you_mean

_OURS: Final = os.path.join(os.path.dirname(__file__), "")
_IMPORTLIB: Final = os.path.join(os.path.dirname(importlib.__file__), "")


def load_app(target: str) -> Windlass:
    name, _, attribute = target.partition(":")
    module = _module(*_placed(name, target))
    if attribute:
        return _attribute(module, attribute)
    apps = {key: value for key, value in vars(module).items() if isinstance(value, Windlass) and key[:1] != "_"}
    if "app" in apps:
        return apps["app"]
    return _only(apps, module)


def absolute(target: str) -> str:
    """The name of the same app for a process that may run in another directory."""
    name, colon, attribute = target.partition(":")
    return f"{Path(name).resolve()}{colon}{attribute}" if name.endswith(".py") else target


def _placed(name: str, target: str) -> tuple[str, str]:
    """The module's name, and the directory from which it can be imported."""
    if not name.endswith(".py"):
        if not name or not all(part.isidentifier() for part in name.split(".")):
            raise InvalidInput("app", f"{target!r} names no module; write tasks:app, tasks, or a path to a .py file")
        return name, os.getcwd()
    path = Path(name).resolve()
    if not path.is_file():
        near = did_you_mean(path.name, [other.name for other in path.parent.glob("*.py")] if path.parent.is_dir() else [])
        raise InvalidInput("app", f"there is no file {path}{near}")
    if not path.stem.isidentifier():
        raise InvalidInput("app", f"{path.name} cannot be imported: rename it so that its name is a Python name")
    return path.stem, str(path.parent)


def _module(name: str, directory: str) -> ModuleType:
    if directory not in sys.path:
        sys.path.insert(0, directory)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise BrokenModule(f"{name} imports {error.name!r}, which is not installed here") from error
        near = did_you_mean(name, [path.stem for path in Path(directory).glob("*.py")])
        raise InvalidInput("app", f"there is no module {error.name!r}{near}; looked in {directory} and sys.path") from None
    except Exception as error:
        raise BrokenModule(f"importing {name} failed: {type(error).__name__}: {error}{_where(error)}") from error


def _where(error: BaseException) -> str:
    """The last place in the person's own code. A syntax error says its own place."""
    step, place = error.__traceback__, ""
    while step is not None and not isinstance(error, SyntaxError):
        file = step.tb_frame.f_code.co_filename
        if not file.startswith(("<", _OURS, _IMPORTLIB)):
            place = f" ({os.path.relpath(file)}:{step.tb_lineno})"
        step = step.tb_next
    return place


def _attribute(module: ModuleType, name: str) -> Windlass:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            near = did_you_mean(part, [key for key in dir(found) if key[:1] != "_"])
            raise InvalidInput("app", f"{module.__name__} has no {part!r}{near}")
        found = getattr(found, part)
    if not isinstance(found, Windlass):
        apps = [key for key, value in vars(module).items() if isinstance(value, Windlass)]
        instead = f"; did you mean {module.__name__}:{apps[0]}?" if apps else ""
        raise InvalidInput("app", f"{module.__name__}:{name} is not a Windlass app but {a(type(found).__name__)}{instead}")
    return found


def _only(apps: Mapping[str, Windlass], module: ModuleType) -> Windlass:
    names = ", ".join(f"{module.__name__}:{key}" for key in apps)
    different = {id(app): app for app in apps.values()}
    if not different:
        raise InvalidInput("app", f"{module.__name__} holds no Windlass app; write in it: app = Windlass()")
    if len(different) > 1:
        raise InvalidInput("app", f"{module.__name__} holds several apps; name one of {names}")
    return next(iter(different.values()))
