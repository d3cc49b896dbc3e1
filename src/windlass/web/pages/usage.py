"""`/usage`: what ran and what it cost, by organisation, queue or type."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, Literal

from windlass.admin.usage import Step, UsageRow
from windlass.clock import moment
from windlass.web.answers import Page
from windlass.web.pages.charts import Chart, Series, stacked
from windlass.web.pages.formats import query
from windlass.web.pages.shell import Told, page, zone_of
from windlass.web.request import Request

SPANS: Final = {"24h": timedelta(hours=24), "7d": timedelta(days=7), "30d": timedelta(days=30)}
STEPS: Final[dict[str, Step]] = {"24h": "hour", "7d": "hour", "30d": "day"}
WORDS: Final = {"24h": "24\u00a0h", "7d": "7\u00a0d", "30d": "30\u00a0d"}
MOST: Final = 200


class Asked(Told, frozen=True, kw_only=True):
    span: Literal["24h", "7d", "30d"] = "7d"
    by: Literal["org", "queue", "type"] = "queue"


async def show(request: Request[Asked, None]) -> Page:
    asked, now = request.query, moment(request.app.client.now())
    since = now - SPANS[asked.span]
    found = await request.admin.usage(since=since, step="all", by=(asked.by, "outcome"), limit=MOST * 3)
    over_time = await request.admin.usage(since=since, step=STEPS[asked.span], limit=1_000)
    rows = added(found.rows, asked.by)
    shown = {
        "found": found,
        "rows": rows[:MOST],
        "asked": asked,
        "step": STEPS[asked.span],
        "total": sum(row["runs"] for row in rows),
        "chart": drawn(request, over_time.rows, STEPS[asked.span], since, now),
        "spans": [(span, word, f"/usage{query({'span': span, 'by': asked.by})}") for span, word in WORDS.items()],
        "kinds": [(by, word, f"/usage{query({'span': asked.span, 'by': by})}") for by, word in
                  (("org", "By organisation"), ("queue", "By queue"), ("type", "By type"))],
        "csv": "/api/usage.csv"
        + query({"since": f"{since:%Y-%m-%dT%H:%M:%SZ}", "step": STEPS[asked.span], "by": asked.by}),
    }  # fmt: skip
    return await page(request, "usage.html", "usage", shown)


def added(rows: tuple[UsageRow, ...], by: str) -> list[dict[str, Any]]:
    """One line for each name, the busiest first."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = getattr(row, by) or ""
        line = found.setdefault(
            name, {"name": name, "runs": 0, "failed": 0, "ran": 0.0, "waited": 0.0, "cpu": 0.0, "rss": None}
        )
        line["runs"] += row.runs
        line["failed"] += row.runs if row.outcome == "failed" else 0
        for field in ("ran", "waited", "cpu"):
            line[field] += getattr(row, field)
        line["rss"] = max((size for size in (line["rss"], row.peak_rss) if size is not None), default=None)
    return sorted(found.values(), key=lambda line: (-line["runs"], line["name"]))


def drawn(
    request: Request[Any, Any], rows: tuple[UsageRow, ...], step: Step, since: datetime, now: datetime
) -> Chart | None:
    """The whole span, also where nothing ran."""
    runs = {row.at: row.runs for row in rows if row.at is not None}
    if not runs:
        return None
    pause = timedelta(hours=1) if step == "hour" else timedelta(days=1)
    first = since.replace(minute=0, second=0, microsecond=0, hour=since.hour if step == "hour" else 0)
    times = [first + pause * place for place in range((now - first) // pause + 1)]
    values = tuple(float(runs.get(at, 0)) for at in times)
    label = f"Runs that ended, by {step}"
    return stacked("usage", label, times, [Series("Runs", "is-accent", values)], zone_of(request), "", height=152)
