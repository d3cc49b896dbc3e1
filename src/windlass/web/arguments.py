"""Arguments that somebody sends to be stored."""

from __future__ import annotations

from typing import Any

from windlass.errors import InvalidInput
from windlass.redaction import is_redacted
from windlass.urls import HIDDEN


def whole(params: Any) -> Any:
    """The same, unless they come from a view: then what was hidden there would be lost."""
    if is_redacted(params):
        raise InvalidInput("params", f"holds {HIDDEN} in the place of what is hidden; write the value, or leave it out")
    return params
