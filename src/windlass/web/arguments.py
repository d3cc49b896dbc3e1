"""Arguments that somebody sends to be stored."""

from __future__ import annotations

from typing import Any

import msgspec

from windlass.errors import InvalidInput
from windlass.redaction import is_redacted
from windlass.urls import HIDDEN
from windlass.web.bounds import Bounds
from windlass.web.reading import shape_of


def decoded(text: str, bounds: Bounds) -> Any:
    """Those of a form, as JSON; nothing stands for none."""
    depth, many = shape_of(text.encode(), bounds.depth, bounds.objects)
    if depth > bounds.depth:
        raise InvalidInput("params", f"may be nested {bounds.depth} levels deep")
    if many > bounds.objects:
        raise InvalidInput("params", f"may hold {bounds.objects:,} objects and lists")
    try:
        return msgspec.json.decode(text) if text.strip() else {}
    except msgspec.DecodeError as error:
        raise InvalidInput("params", f"is not JSON: {error}") from None


def differs(params: Any, shown: Any) -> bool:
    """Whether they would be stored as something else. To Python, true is 1."""
    return msgspec.json.encode(params, order="deterministic") != msgspec.json.encode(shown, order="deterministic")


def whole(params: Any) -> Any:
    """The same, unless they come from a view: then what was hidden there would be lost."""
    if is_redacted(params):
        raise InvalidInput("params", f"holds {HIDDEN} in the place of what is hidden; write the value, or leave it out")
    return params
