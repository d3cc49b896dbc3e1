"""Fewer of everything: a quick run asks the same questions of fewer rows, and says so."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

THOUSAND: Final = 1_000  # scripts of other queues load by the thousand
FEWEST: Final = 5
FEWEST_SECONDS: Final = 3

N = TypeVar("N", bound=msgspec.Struct)


def scaled(numbers: N, scale: float) -> N:
    return msgspec.structs.replace(
        numbers, **{name: _fewer(name, value, scale) for name, value in msgspec.structs.asdict(numbers).items()}
    )


def _fewer(name: str, value: Any, scale: float) -> Any:
    if isinstance(value, dict):
        return {key: _fewer(name, one, scale) for key, one in value.items()}
    if name == "rate":  # how fast is no question of how many
        return value
    if name.endswith("seconds"):
        return max(round(value * scale), min(value, FEWEST_SECONDS))
    if value % THOUSAND == 0:
        return max(round(value * scale / THOUSAND), 1) * THOUSAND
    return max(round(value * scale), min(value, FEWEST))
