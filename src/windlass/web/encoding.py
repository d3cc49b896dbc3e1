"""Views to JSON."""

from __future__ import annotations

from typing import Any

import msgspec


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)
