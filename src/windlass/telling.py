"""Bad values in the text of errors."""

from __future__ import annotations


def shown(value: object) -> str:
    """A short text for a value; one that Python refuses to write out is described."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    try:
        return f"{value!r:.80}"
    except Exception:  # a number of thousands of digits, something within itself, a class that cannot show itself
        return f"a {type(value).__name__}"
