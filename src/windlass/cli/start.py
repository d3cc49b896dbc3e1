"""`windlass demo` and `version`."""

from __future__ import annotations

import platform

from windlass import __version__
from windlass.cli.session import Common


def demo() -> int:
    """See it at work: a thousand jobs, a worker killed in the middle, and a check that nothing was lost."""
    from windlass.demo import main

    return main()


def version(*, common: Common = Common()) -> None:
    """The versions of Windlass and Python."""
    if common.json:
        common.out.emit(version=__version__, python=platform.python_version())
    else:
        common.out.line(f"windlass {__version__} on Python {platform.python_version()}")
