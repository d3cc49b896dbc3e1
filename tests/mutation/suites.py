"""Which tests are tried on which part: those that run in this process and can come to its code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mutation.mutant import ROOT
from mutation.server import ONE


def nothing() -> None:
    pass


@dataclass(frozen=True)
class Suite:
    tests: tuple[str, ...]
    start: Callable[[], None] = nothing  # once, in the parent
    between: Callable[[], None] = nothing  # in the parent, after each mutant
    stop: Callable[[], None] = nothing
    words: str = ""  # by which tests are chosen

    def chosen(self, only: str | None) -> list[str]:
        words = " and ".join(f"({words})" for words in (self.words, only) if words)
        return [*self.tests, *(("-k", words) if words else ())]


CONFORMANCE = ("tests/drivers/test_conformance.py", "tests/drivers/sqlite/test_transactions.py")
OTHERS = (
    "tests/drivers/test_listing_everywhere.py", "tests/drivers/test_order_everywhere.py",
    "tests/drivers/test_many_limits.py", "tests/drivers/test_backlogs.py", "tests/drivers/test_large_fair_queues.py",
    "tests/drivers/test_large_groups.py", "tests/drivers/test_referred_jobs.py", "tests/drivers/test_usage_by_days.py",
    "tests/drivers/test_bad_input_everywhere.py", "tests/others", "tests/test_usage.py", "tests/test_capacity.py",
    "tests/test_history.py", "tests/test_why.py", "tests/test_tokens.py", "tests/test_finding.py",
    "tests/client/test_schedules.py", "tests/client/test_bad_input.py", "tests/client/test_limits.py",
    "tests/client/test_groups.py", "tests/client/test_holds.py", "tests/client/test_jobs.py",
    "tests/client/test_placing.py", "tests/client/test_enqueue.py", "tests/coordinator",
    "tests/acceptance/test_scheduler.py", "tests/acceptance/test_scheduler_limits.py",
    "tests/acceptance/test_scheduler_people.py", "tests/worker/test_webhooks.py", "tests/test_admin.py",
    "tests/test_admin_webhooks.py", "tests/test_acting.py", "tests/copying/test_everything_moves.py",
    "tests/copying/test_refusals.py", "tests/acceptance/test_repair.py",
)  # fmt: skip
OF_POSTGRES = """conformance steps fences cursor listing numbers sql_enqueue partitions health exposure gathering
 lost_replies held_rows own_transactions holds""".split()
STEPS = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/drivers/postgres/test_postgres_steps_of_*.py"))
OF_SQLITE = ("tests/drivers/sqlite/test_health.py", "tests/drivers/sqlite/test_space.py")
LOCAL = "not (postgres or Stdlib or Inline or http)"
MODEL = "tests/drivers/test_model.py"

SUITES = {
    "core": Suite(("tests/core", *CONFORMANCE, *OTHERS), words=LOCAL),
    "sqlite": Suite((*CONFORMANCE, *OTHERS, *OF_SQLITE), words=f"{LOCAL} and not (memory or Memory)"),
    "postgres": Suite(
        tests=(*(f"tests/drivers/postgres/test_postgres_{name}.py" for name in OF_POSTGRES), *STEPS, *OTHERS),
        start=ONE.start, between=ONE.tidy, stop=ONE.stop, words="(postgres or Postgres) and not http",
    ),
}  # fmt: skip
