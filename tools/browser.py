"""The browser that tests and pictures use: a chromium of the system, never one that is downloaded."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = (
    "There is no chromium here. Debian and Ubuntu have it as the package `chromium`: run tools/debian_packages.sh, or "
    "name another one with CHROMIUM=/path/to/it."
)


def chromium() -> str:
    """Where it is, or an error that says what to install."""
    named = os.environ.get("CHROMIUM")
    found = named or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None or not os.access(found, os.X_OK):
        raise FileNotFoundError(MISSING if named is None else f"CHROMIUM={named} is no program. {MISSING}")
    return found
