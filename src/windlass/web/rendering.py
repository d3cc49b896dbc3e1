"""Templates become pages. Everything is escaped; nothing may be left undefined."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from windlass.web.pages import charts, formats, labels, payloads

HERE: Final = Path(__file__).parent
FILTERS: Final[dict[str, Any]] = {**charts.FILTERS, **formats.FILTERS, **labels.FILTERS, **payloads.FILTERS}


def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters.update(FILTERS)
    return made
