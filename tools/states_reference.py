"""Write docs/reference/states.md and docs/assets/states.svg from the state machine, so that they cannot say anything else.

python tools/states_reference.py            write page and picture
python tools/states_reference.py --check    fail when one of them is not what would be written
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final, get_args

from generated import ROOT, write_or_check

from windlass.core.states import MOVES, Cause
from windlass.types import LABELS, STATES, TERMINAL

PAGE: Final = ROOT / "docs" / "reference" / "states.md"
PICTURE: Final = ROOT / "docs" / "assets" / "states.svg"

MEANS: Final = {
    "queued": "It waits: for its time, for another job, for a limit, or for a worker.",
    "running": "A worker has it, under a lease and a token that no other has.",
    "succeeded": "Its handler returned, and that is stored.",
    "dead": "A dead letter: exhausted, rejected, lost too often, or superseded by the next link of its chain.",
    "cancelled": "Somebody stopped it, or what it waited for failed.",
}  # fmt: skip
CAUSES: Final = {
    "enqueue": "it was stored",
    "claim": "a worker took it; the lease begins",
    "ack": "the handler returned",
    "retry": "the handler failed, and attempts are left: it comes back after the backoff",
    "fail": "no attempt is left, it was rejected, or its workers died too often",
    "snooze": "the handler asked to be called again later; no attempt is spent",
    "release": "it was handed back unfinished, by a worker that stops; no attempt is spent",
    "cancelled": "it had been asked to stop, and its worker stored that it did",
    "expire": "the lease lapsed: its worker is gone or too late",
    "cancel": "somebody asked for it: at once where it waits, and as a request where it runs",
    "replay": "somebody runs a dead letter again; a link of a chain stays dead, and a new one takes over",
}  # fmt: skip
SEEN: Final = {
    "queued": "ready, and next to be claimed in its order",
    "scheduled": "its time has not come: a delay, or the backoff of a retry",
    "blocked": "it waits for other jobs",
    "parked": "it waits for a limit",
    "claimed": "a worker has it and has not begun",
    "running": "its handler runs",
    "succeeded": "it ended well",
    "dead": "it ended as a dead letter",
    "cancelled": "it was stopped",
}  # fmt: skip

# Where the boxes are: (left, top) of 130 × 44. What leads where, and why, is read from the table of moves.
WIDE, HIGH = 130, 44
PLACES: Final = {
    "queued": (130, 118),
    "running": (440, 118),
    "succeeded": (730, 20),
    "cancelled": (730, 118),
    "dead": (730, 216),
}
TONES: Final = {
    "queued": ("ready", "#4a5363", "#eceff3"), "running": ("running", "#0a659c", "#e4f1fa"),
    "succeeded": ("succeeded", "#16714a", "#e3f5eb"), "dead": ("dead", "#b92025", "#fdeaea"),
    "cancelled": ("cancelled", "#5f6674", "#eff0f3"),
}  # fmt: skip
# The way of each arrow and the place of its words. An arrow that is not here fails the making: somebody has to draw it.
WAYS: Final = {
    (None, "queued"): ("M20 140 H126", 66, 130),
    ("queued", "running"): ("M260 130 H436", 348, 122),
    ("running", "queued"): ("M440 150 H264", 350, 170),
    ("running", "running"): ("M480 118 C480 70 530 70 530 114", 505, 72),
    ("running", "succeeded"): ("M570 126 C650 110 650 42 726 42", 622, 62),
    ("running", "cancelled"): ("M570 140 H726", 648, 132),
    ("running", "dead"): ("M570 154 C650 170 650 238 726 238", 624, 212),
    ("queued", "cancelled"): ("M195 118 C195 -32 660 -20 690 60 C700 100 706 128 726 132", 400, 30),
    ("dead", "queued"): ("M730 250 C520 300 195 280 195 166", 400, 262),
    ("dead", "dead"): ("M860 226 C904 220 904 258 864 250", 872, 210),
}  # fmt: skip


def arrows() -> dict[tuple[str | None, str], list[str]]:
    found: dict[tuple[str | None, str], list[str]] = {}
    for (before, cause), afters in MOVES.items():
        for after in sorted(afters):
            found.setdefault((before, after), []).append(cause)
    return found


def drawn() -> Iterator[str]:
    ink, quiet, ground = "var(--wl-text,#15181e)", "var(--wl-text-2,#4d5461)", "var(--wl-surface,#ffffff)"
    told = "; ".join(
        f"{before or 'nothing'} to {after} by {', '.join(causes)}" for (before, after), causes in arrows().items()
    )
    yield '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 300" role="img" aria-labelledby="states-told"'
    yield '  font-family="system-ui, sans-serif" font-size="12.5">'
    yield f'<title id="states-told">The states of a job: {told}</title>'
    yield f'<rect width="920" height="300" rx="8" fill="{ground}"/>'
    yield f'<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0 0 8 4 0 8Z" fill="{quiet}"/></marker></defs>'
    for way, causes in arrows().items():
        path, left, top = WAYS[way]
        yield f'<path d="{path}" fill="none" stroke="{quiet}" stroke-width="1.5" marker-end="url(#head)"/>'
        yield f'<text x="{left}" y="{top}" text-anchor="middle" fill="{quiet}">{", ".join(causes)}</text>'
    for state in STATES:
        left, top = PLACES[state]
        name, line, fill = TONES[state]
        tone = f'fill="var(--wl-{name}-soft,{fill})" stroke="var(--wl-{name},{line})"'
        yield f'<rect x="{left}" y="{top}" width="{WIDE}" height="{HIGH}" rx="6" {tone} stroke-width="1.5"/>'
        if state in TERMINAL:
            yield f'<rect x="{left + 4}" y="{top + 4}" width="{WIDE - 8}" height="{HIGH - 8}" rx="4" fill="none" stroke="var(--wl-{name},{line})"/>'
        yield f'<text x="{left + WIDE // 2}" y="{top + 27}" text-anchor="middle" font-weight="600" fill="{ink}">{state}</text>'
    yield "</svg>"


def page() -> str:
    lines = [
        "# States\n",
        "This page and its picture are generated from the table of moves in `src/windlass/core/states.py`: `make docs` writes",
        "them, `make lint` fails when they are out of date. Tests enumerate the same table, and the schema refuses the rest.\n",
        "![The states of a job and what moves it](../assets/states.svg)\n",
        "A box with two lines is an end.\n",
        "| state | what it means |\n|---|---|",
        *(f"| `{state}` | {MEANS[state]} |" for state in STATES),
        "\n## What moves a job\n",
        "| from | by | to | when |\n|---|---|---|---|",
    ]  # fmt: skip
    for (before, cause), afters in MOVES.items():
        start = f"`{before}`" if before else ""
        lines.append(f"| {start} | `{cause}` | {', '.join(f'`{after}`' for after in sorted(afters))} | {CAUSES[cause]} |")
    lines += [
        "\n## What is shown\n",
        "A state changes a rule; what only looks different on a screen is a *label*. Lists, filters and counts use these:\n",
        "| label | what it means |\n|---|---|",
        *(f"| `{label}` | {SEEN[label]} |" for label in LABELS),
        "",
    ]  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    assert set(CAUSES) == set(get_args(Cause))
    sys.exit(write_or_check(PAGE, page(), sys.argv[1:]) | write_or_check(PICTURE, "\n".join(drawn()) + "\n", sys.argv[1:]))
