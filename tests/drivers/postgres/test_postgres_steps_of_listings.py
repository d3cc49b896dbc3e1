"""A change of what was seen, and others who change the same job: through every interleaving."""

from __future__ import annotations

from postgres.programs import check, claim, claimed, enqueue, new, settle, wanted, wish
from postgres.stepping import Stage
from windlass.core.alterations import Cancel, Unchanged
from windlass.drivers.ops import inspect
from windlass.drivers.postgres.dialect import DIALECT


def seen(stage: Stage, job_id: str) -> int:
    [job] = stage.do(inspect.get(DIALECT, [job_id]))
    assert job is not None
    return job.updated_at


def test_of_two_who_saw_the_same_job_one_changes_it(stage: Stage) -> None:
    [job] = enqueue(stage, new())
    at = seen(stage, job)
    for outcome in stage.every(
        lambda: {"one": wanted(Unchanged(Cancel(job), at)), "two": wanted(Unchanged(Cancel(job), at))}
    ):
        assert sorted([*outcome["one"], *outcome["two"]]) == ["applied", "changed"], outcome
        check(stage, outcome)


def test_a_claim_between_look_and_change_is_seen(stage: Stage) -> None:
    """The job is claimed or cancelled, never asked to stop by somebody who had seen it waiting."""
    [job] = enqueue(stage, new())
    at = seen(stage, job)
    for outcome in stage.every(lambda: {"person": wanted(Unchanged(Cancel(job), at)), "worker": claim(wish("w"))}):
        taken = [one.id for one in outcome["worker"]]
        assert (outcome["person"], taken) in ((["applied"], []), (["changed"], [job])), outcome
        check(stage, outcome)


def test_an_end_between_look_and_change_is_seen(stage: Stage) -> None:
    [job] = enqueue(stage, new())
    [lease] = claimed(stage)
    at = seen(stage, job)
    for outcome in stage.every(lambda: {"person": wanted(Unchanged(Cancel(job), at)), "worker": settle([lease])}):
        [state] = [row[0] for row in stage.ask(f"select state from windlass.jobs where id = '{job}'")]
        assert state in ("succeeded", "cancelled")
        assert outcome["person"] == ["requested"] or (outcome["person"], state) == (["changed"], "succeeded")
        check(stage, outcome)


def test_those_who_change_many_in_another_order_do_not_wait_for_each_other(stage: Stage) -> None:
    one, two = enqueue(stage, new(), new())
    looks = seen(stage, one), seen(stage, two)
    for outcome in stage.every(
        lambda: {
            "forth": wanted(Unchanged(Cancel(one), looks[0]), Unchanged(Cancel(two), looks[1])),
            "back": wanted(Unchanged(Cancel(two), looks[1]), Unchanged(Cancel(one), looks[0])),
        },
        most=3_000,
    ):
        assert sorted((outcome["forth"], outcome["back"])) == [["applied"] * 2, ["changed"] * 2]
        check(stage, outcome)
