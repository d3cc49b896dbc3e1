"""What a driver answers in pages, walked to its end."""

from __future__ import annotations

from windlass.core.history import RUNS_LIMIT
from windlass.drivers.protocol import Driver
from windlass.types import Run


async def every_run(driver: Driver, job_id: str) -> list[Run]:
    """All executions of a job, first to last, however many there were. For those who must see each of them: the job's own
    counters say how many there were, and one page shows the newest."""
    pages: list[list[Run]] = []
    before: int | None = None
    while before is None or before > 1:
        page = await driver.runs(job_id, before=before, limit=RUNS_LIMIT)
        if not page:
            break
        pages.append(page)
        before = page[0].attempt_no
    return [run for page in reversed(pages) for run in page]
