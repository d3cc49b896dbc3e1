"""What `app.queue(...)` declares, as changes that are checked before they reach a store."""

from __future__ import annotations

from windlass.clock import duration
from windlass.core.admission_of_changes import POSITIONS, check_alteration
from windlass.core.alterations import Alteration, PutLimit, PutQueue
from windlass.core.fields import check_name, check_one_of
from windlass.errors import InvalidInput, shown
from windlass.policies import Duration
from windlass.presets import Preset
from windlass.types import Micros, Order, Positions
from windlass.words import System


def described_queue(
    name: str, *, preset: System | None, chosen: Preset | None, positions: Positions | None, max_running: int | None,
    order: Order, ageing: tuple[Duration, int] | None,
) -> list[Alteration]:  # fmt: skip
    """The changes that make the queue, and its limit if it has one. `chosen` is the preset of that name."""
    check_name("queue", name)
    if positions is not None:
        check_one_of("positions", positions, POSITIONS)
    placed = positions or (chosen.positions if chosen else "tail")
    after, to = _ageing(ageing)
    most = max_running if max_running is not None or chosen is None else chosen.max_running
    changes: list[Alteration] = [PutQueue(name, positions=placed, preset=preset, order=order, age_after=after, age_to=to)]
    if most is not None:
        changes.append(PutLimit(f"queue:{name}", most, declared=True))
    for change in changes:
        check_alteration(change)
    return changes


def _ageing(said: object) -> tuple[Micros | None, int | None]:
    if said is None:
        return None, None
    if not isinstance(said, tuple) or len(said) != 2 or type(said[1]) is not int:
        raise InvalidInput(
            "ageing", f"must be how long a job waits and the highest priority, as ('10m', 5), got {shown(said)}"
        )
    return duration(said[0], field="ageing"), said[1]
