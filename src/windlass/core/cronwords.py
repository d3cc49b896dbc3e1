"""A schedule's rule in plain words: `At 02:30 every day, by the clocks of America/New_York`."""

from __future__ import annotations

from typing import Final

from windlass.clock import SECOND
from windlass.core.cron import PROBE, check_rule, check_zone, fields_of, interval_of
from windlass.types import Micros

_UNITS: Final = (("day", 86_400 * SECOND), ("hour", 3_600 * SECOND), ("minute", 60 * SECOND), ("second", SECOND))


def in_plain_words(expression: str, zone: str = "UTC") -> str:
    """What the rule says. An interval knows no zone."""
    text = check_rule(expression)
    every = interval_of(text)
    if every is not None:
        return f"Every {_pause(every)}"
    from cronsim import CronSim

    said = CronSim(" ".join(fields_of(text)), PROBE).explain()
    return f"{said}, {'UTC' if check_zone(zone) == 'UTC' else f'by the clocks of {zone}'}"


def on_the_wall(expression: str) -> str:
    """What the rule does when clocks are changed."""
    fields = fields_of(check_rule(expression))
    if interval_of(expression) is not None:
        return "counts real time, so clocks that are changed do not move it"
    if fields[-5].startswith("*") or fields[-4].startswith("*"):
        return "a rhythm: an hour that comes twice is gone through twice, one that is left out is not made up for"
    return "fixed times: one that is left out fires when the gap ends, one that comes twice fires at its first"


def _pause(every: Micros) -> str:
    parts = list[str]()
    for name, size in _UNITS:
        count, every = divmod(every, size)
        if count:
            parts.append(name if count == 1 and not every and not parts else f"{count} {name}{'s' if count > 1 else ''}")
    if every:
        parts.append(f"{every / SECOND:g} seconds".replace("1 seconds", "1 second"))
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"
