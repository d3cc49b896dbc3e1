"""However a listing finds its jobs, they are those that were asked for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from postgres.plans import FILL
from postgres.server import Server, unique_name
from postgres.stepping import Stage, staged
from windlass.drivers import filters
from windlass.drivers.ops import inspect
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.values import JobQuery
from windlass.types import Job

ALL: dict[str, tuple[Any, ...]] = {
    "states": (
        (),
        ("queued",),
        ("running", "dead"),
        ("succeeded",),
        ("queued", "cancelled"),
        ("dead", "queued", "running"),
    ),
    "queues": ((), ("big",), ("q95", "q297")),
    "group_id": (None, "g0"),
    "org_id": (None, "org17"),
    "superseded": (False, True),
}


@pytest.fixture(scope="module")
def full(postgres_server: Server) -> Iterator[Stage]:
    with staged(postgres_server.dsn(), unique_name("listing")) as stage:
        filled = FILL.format(now=1_800_000_000_000_000, rows=3_000)
        stage.run(f"begin; set local session_replication_role = replica; {filled}; commit")
        stage.run(
            "update windlass.jobs set dead_kind = 'superseded', superseded_by = 'x' where state = 'dead' and seq % 3 = 0"
        )
        yield stage
        stage.run(f"drop schema {stage.schema} cascade")


@pytest.mark.parametrize("newest", [1, 50, 2_000])
def test_a_listing_holds_what_was_asked_for(full: Stage, monkeypatch: pytest.MonkeyPatch, newest: int) -> None:
    monkeypatch.setattr(filters, "NEWEST", newest)
    everything = full.do(inspect.find(DIALECT, JobQuery(limit=10_000, superseded=True))).jobs
    assert len(everything) == 3_000
    for values in itertools.product(*ALL.values()):
        query = JobQuery(**dict(zip(ALL, values, strict=True)), limit=40)
        wanted = [job.id for job in everything if is_wanted(job, query)]
        first = full.do(inspect.find(DIALECT, query))
        assert [job.id for job in first.jobs] == wanted[:40], query
        assert (first.cursor is not None) == (len(wanted) > 40), query
        if first.cursor is not None:
            second = full.do(
                inspect.find(DIALECT, JobQuery(**dict(zip(ALL, values, strict=True)), limit=7, before=first.cursor))
            )
            assert [job.id for job in second.jobs] == wanted[40:47], query


def is_wanted(job: Job, query: JobQuery) -> bool:
    return (
        (not query.states or job.state in query.states)
        and (not query.queues or job.queue in query.queues)
        and query.group_id in (None, job.group_id)
        and query.org_id in (None, job.org_id)
        and (query.superseded or job.dead_kind != "superseded")
    )
