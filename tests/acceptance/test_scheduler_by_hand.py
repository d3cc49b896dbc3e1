"""Job Scheduler: what never changes does not change, not even by a hand that writes SQL."""

from __future__ import annotations

from typing import Any

import apsw
import psycopg
import pytest

from windlass.core.changes import Report
from windlass.core.settle import Succeeded
from windlass.types import Claimed

from .desk import Desk
from .place import Place, run

NEVER = {
    "JS-040": "id = 'x'", "JS-041": "template_id = 'x'", "JS-042": "schedule_id = 'x'", "JS-043": "group_id = 'x'",
    "JS-044": "type = 'x'", "JS-049": "retry_of = 'x'", "JS-050": "created_at = {instant}",
    "JS-051": "queued_at = {instant}",
}  # fmt: skip


@pytest.fixture
def desk(sql_place: Place) -> Desk:
    return Desk(sql_place)


def refused(desk: Desk, statement: str) -> None:
    with pytest.raises((apsw.Error, psycopg.Error)):
        desk.place.sql(statement)


def running(desk: Desk) -> Claimed:
    taken: list[Claimed] = []

    async def main() -> None:
        taken.append(await desk.dispatched())

    run(main)
    return taken[0]


@pytest.mark.parametrize("change", NEVER.values(), ids=NEVER)
def test_what_a_job_is_never_changes(desk: Desk, change: str) -> None:
    """JS-009, JS-040, JS-041, JS-042, JS-043, JS-044, JS-049, JS-050, JS-051: not while it is QUEUED either."""

    async def main() -> None:
        job_id = await desk.enqueue()
        before = await desk.row(job_id)
        refused(desk, f"update jobs set {change.format(instant=desk.place.instant(1))}")
        assert await desk.row(job_id) == before

    run(main)


@pytest.mark.parametrize(
    ("change", "requirement"),
    [("priority = 9", "JS-047"), ("position = 9", "JS-048"), ("codec = 'raw'", "JS-045"), ("state = 'queued'", "JS-152"),
     ("state = 'queued', lease_token = null, lease_expires_at = null", "JS-152"), ("started_at = {instant}", "JS-052"),
     ("executions = 2", "JS-151")],
)  # fmt: skip
def test_what_may_change_while_queued_is_frozen_by_the_dispatch(desk: Desk, change: str, requirement: str) -> None:
    """JS-009, JS-045, JS-047, JS-048, JS-052, JS-151, JS-152: and RUNNING never returns to QUEUED."""
    queued = change.format(instant=desk.place.instant(1))

    async def main() -> None:
        job_id = await desk.enqueue()
        if requirement in ("JS-045", "JS-047", "JS-048"):
            desk.place.sql(f"update jobs set {queued}")
        await desk.dispatch()
        before = await desk.row(job_id)
        refused(desk, f"update jobs set {queued.replace('9', '8').replace('raw', 'json')}")
        assert await desk.row(job_id) == before

    run(main)


def test_the_end_of_a_job_is_written_once(desk: Desk) -> None:
    """JS-053, JS-057: finished_at stays, and so does the ending."""

    async def main() -> None:
        job = await desk.dispatched()
        await desk.end(job, Succeeded())
        for change in (f"finished_at = {desk.place.instant(1)}", "state = 'queued'", "state = 'cancelled'"):
            refused(desk, f"update jobs set {change}")

    run(main)


@pytest.mark.parametrize(
    ("change", "requirement"),
    [("run_id = 'x'", "JS-060"), ("job_seq = 99", "JS-061"), ("template_id = 'x'", "JS-062"), ("params = {blob}", "JS-063"),
     ("started_at = {instant}", "JS-065")],
)  # fmt: skip
def test_what_a_run_began_with_never_changes(desk: Desk, change: str, requirement: str) -> None:
    """JS-010, JS-060, JS-061, JS-062, JS-063, JS-065: from its first moment."""
    running(desk)
    blob = "decode('00', 'hex')" if desk.place.kind == "postgres" else "x'00'"
    refused(desk, f"update runs set {change.format(instant=desk.place.instant(1), blob=blob)}")


@pytest.mark.parametrize(
    ("change", "requirement"),
    [("status = 'failed'", "JS-064"), ("finished_at = {instant}", "JS-066"), ("exit_code = 1", "JS-067"),
     ("error = 'x'", "JS-068"), ("log_path = 'x'", "JS-070")],
)  # fmt: skip
def test_the_end_of_a_run_is_written_once(desk: Desk, change: str, requirement: str) -> None:
    """JS-010, JS-064, JS-066, JS-067, JS-068, JS-070, JS-076: what it ended with is history."""

    async def main() -> None:
        job = await desk.dispatched()
        await desk.end(job, Succeeded(), Report(exit_code=0, log_path="logs/1"))
        before = await desk.runs(job.id)
        refused(desk, f"update runs set {change.format(instant=desk.place.instant(1))}")
        assert await desk.runs(job.id) == before

    run(main)


def test_artifacts_are_appended_only(desk: Desk) -> None:
    """JS-069, JS-076: also after the end; none is taken away or exchanged."""

    async def main() -> None:
        job = await desk.dispatched()
        await desk.end(job, Succeeded(), Report(artifacts=("a.md",)))
        desk.place.sql("""update runs set artifacts = '["a.md", "b.md"]'""")
        refused(desk, "update runs set artifacts = '[]'")
        refused(desk, """update runs set artifacts = '["c.md", "b.md"]'""")
        [only] = await desk.runs(job.id)
        assert only.artifacts == ("a.md", "b.md")

    run(main)


def test_a_run_belongs_to_a_job(desk: Desk) -> None:
    """JS-061, JS-149: none is made for a job that is not there, none is deleted without its job, nor a job that runs."""
    running(desk)
    told: dict[str, Any] = {"instant": desk.place.instant(1)}
    refused(
        desk,
        "insert into runs (job_seq, attempt_no, run_id, queue, type, claimed_at) "
        "values (99, 1, 'x', 'q', 't', {instant})".format(**told),
    )
    refused(desk, "delete from runs")
    refused(desk, "delete from jobs")


def test_a_link_has_one_automatic_successor(desk: Desk) -> None:
    """JS-141: a second one cannot be written."""

    async def main() -> None:
        job_id = await desk.enqueue()
        desk.place.sql(f"insert into jobs (type, retry_of) values ('story', '{job_id}')")
        refused(desk, f"insert into jobs (type, retry_of) values ('story', '{job_id}')")

    run(main)
