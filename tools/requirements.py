"""Writes docs/reference/requirements.md: what the source systems asked for, and what keeps each of it."""

from __future__ import annotations

import sys

from generated import ROOT, write_or_check

sys.path.append(str(ROOT / "tests"))

from acceptance.requirements_page import PAGE, page

if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), sys.argv[1:]))
