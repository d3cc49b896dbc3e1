"""Values that say their own name when they are written down, so that one of several kinds can be read back."""

from __future__ import annotations

from msgspec import Struct


class Named(Struct, frozen=True, tag_field="op", tag=True):
    """As JSON it has a field `op` with the name of its class: `{"op": "Cancel", "job_id": …}`."""
