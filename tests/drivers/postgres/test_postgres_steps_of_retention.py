"""What a bite of retention has found may be another thing by the time it deletes: the same job, at another end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from postgres.programs import NOW, alter, claimed, enqueue, new, wish
from postgres.stepping import Stage, before
from windlass.core.alterations import PutGroup, Replay
from windlass.core.duties import Done, Prune
from windlass.core.settle import Execution, Outcome, Rejected, Succeeded
from windlass.core.settle import settle as decide
from windlass.drivers.ops import duties, people
from windlass.drivers.postgres import leases, settlement
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.postgres.link import Link
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Block

NO = Rejected("no")
SINCE = NOW + 100  # when the bite begins
ANEW = NOW + 101  # when the job ends once more
OLD_DEAD = Prune(succeeded=50, cancelled=50, dead=50, limit=1)


def dead(stage: Stage, **fields: str) -> str:
    [job] = enqueue(stage, new(**fields))
    units = [decide(one, NO, Execution(at=NOW)) for one in claimed(stage)]
    assert stage.do(settlement.settle(units, NOW)) == ["applied"]
    return job


def run_again(stage: Stage, job: str, end: Outcome) -> Callable[[], None]:
    def meanwhile() -> None:
        with closing(Link(stage.place)) as other:
            assert other.transact(people.alter(DIALECT, [Replay(job, "unused")], ANEW)) == ["applied"]
            jobs = other.transact(leases.claim(wish("other"), ANEW))
            units = [decide(one, end, Execution(at=ANEW)) for one in jobs]
            assert other.transact(settlement.settle(units, ANEW)) == ["applied"]

    return meanwhile


@pytest.mark.parametrize("end", [Succeeded(), NO])
@pytest.mark.parametrize("at", [SQL.chains, SQL.lock_ended])
def test_a_job_that_ended_anew_while_it_was_to_go_is_kept_from_then(stage: Stage, end: Outcome, at: Block) -> None:
    job = dead(stage)
    bite = duties.maintain(DIALECT, OLD_DEAD, None, SINCE)
    assert stage.do(before(at, bite, run_again(stage, job, end))) == Done(0, more=True)
    assert stage.ask("select executions from windlass.jobs") == [(2,)]
    assert stage.do(duties.maintain(DIALECT, OLD_DEAD, None, ANEW + 49)) == Done(0)
    assert stage.do(duties.maintain(DIALECT, OLD_DEAD, None, ANEW + 50)) == Done(1, more=True)


@pytest.mark.parametrize("end", [Succeeded(), NO])
def test_a_group_of_which_one_ended_anew_while_another_was_to_go_stays_whole(stage: Stage, end: Outcome) -> None:
    """Of the other it is only asked whether it keeps the group."""
    alter(stage, PutGroup("g", 2))
    jobs = [dead(stage, group_id="g") for _ in range(2)]
    bite = duties.maintain(DIALECT, OLD_DEAD, None, SINCE)
    assert stage.do(before(SQL.chains, bite, run_again(stage, jobs[1], end))) == Done(0, more=True)
    assert stage.ask("select executions from windlass.jobs order by seq") == [(1,), (2,)]
    assert stage.do(duties.maintain(DIALECT, OLD_DEAD, None, ANEW + 49)) == Done(0)
