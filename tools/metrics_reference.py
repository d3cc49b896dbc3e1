"""Write docs/reference/metrics.md from the table of metrics, so that the page cannot say anything else.

python tools/metrics_reference.py            write the page
python tools/metrics_reference.py --check    fail when the page is not what would be written
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from generated import ROOT, write_or_check

from windlass.telemetry.families import BOUNDS, FAMILIES, Where

PAGE = ROOT / "docs" / "reference" / "metrics.md"


def rows(where: Where) -> Iterator[str]:
    yield "| metric | kind | labels | what it tells |"
    yield "|---|---|---|---|"
    for family in FAMILIES:
        if family.where == where:
            labels = ", ".join(f"`{label}`" for label in family.labels)
            yield f"| `{family.name}` | {family.kind} | {labels} | {family.says} |"


def page() -> str:
    return "\n".join([
        "# Metrics\n",
        "This page is generated from `src/windlass/telemetry/families.py`: `make docs` writes it, `make lint` fails when",
        "it is out of date. How to have them, and what to watch: [observability](../operations/observability.md).\n",
        "## Of the store, by `windlass serve`\n",
        "At `GET /metrics`, for whoever has the scope `read`.\n",
        *rows("serve"),
        "\n## Of a process, by `windlass worker --metrics`\n",
        f"Buckets of histograms end at {', '.join(f'{bound:g}' for bound in BOUNDS)} seconds.\n",
        *rows("worker"),
        "",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), sys.argv[1:]))
