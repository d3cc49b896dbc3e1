"""The part of the state machine in `model.py` that acts in somebody's name, and lets people in.

Whatever is asked, a job that is not theirs stays as it is, and each change is a line of the audit log.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from windlass.core.acting import By, within
from windlass.core.alterations import (
    Alteration,
    Cancel,
    CreateToken,
    NoteUse,
    RevokeToken,
    RunNow,
    SetPaused,
    SetPriority,
    Swap,
)
from windlass.core.queries import AllTokens, AuditLog
from windlass.testing.model_machine import Machine

PEOPLE = (
    By(actor="ada"), By(actor="o", org_id="o"), By(actor="a", queues=("a",)), By(actor="o/b", org_id="o", queues=("b",)),
)  # fmt: skip
TOKENS = ("t1", "t2", "t3")


class AccessRules(Machine):
    @rule(
        who=st.sampled_from(PEOPLE), pick=st.integers(0, 30), other=st.integers(0, 30), priority=st.sampled_from((0, 1, 2)),
        what=st.sampled_from(("cancel", "run now", "priority", "swap", "pause", "several")),
    )  # fmt: skip
    def act(self, who: By, pick: int, other: int, priority: int, what: str) -> None:
        jobs = [*sorted(self.before), "nobody"]
        one, two = jobs[pick % len(jobs)], jobs[other % len(jobs)]
        changes: dict[str, list[Alteration]] = {
            "cancel": [Cancel(one)], "run now": [RunNow(one)], "priority": [SetPriority(one, priority)],
            "swap": [Swap(one, two)], "pause": [SetPaused("a", priority == 2)],
            "several": [SetPriority(one, priority), SetPriority(two, priority), RunNow(two)],
        }  # fmt: skip
        if what == "swap" and one == two:
            return
        rows = {job.id: job for job in self._jobs(self.driver)}
        lines = len(self._ask(self.driver, "read", AuditLog()))
        answers, _ = self.both("alter", changes[what], now=self.now, by=who)
        named = {one} if what == "cancel" else {one, two}  # a cancellation reaches those that wait for the job, whosoever
        foreign = [rows[job] for job in named if job in rows and not within(who, rows[job].org_id, rows[job].queue)]
        for job in foreign:
            assert self._ask(self.driver, "get", [job.id]) == [job], "somebody changed what is not theirs"
        changed = isinstance(answers, list) and {"applied", "requested"} & set(answers)
        grown = len(self._ask(self.driver, "read", AuditLog())) - lines
        assert bool(grown) == bool(changed), "a change and its line go together"

    @rule(
        who=st.sampled_from((None, *PEOPLE)), token=st.sampled_from(TOKENS), org_id=st.sampled_from((None, "o")),
        what=st.sampled_from(("create", "create", "revoke", "use")),
    )  # fmt: skip
    def let_in(self, who: By | None, token: str, org_id: str | None, what: str) -> None:
        changes: dict[str, Alteration] = {
            "create": CreateToken(
                token_id=self.name("token") if org_id else token, name=token, digest=token.encode().ljust(32, b"."),
                scopes=("read",), org_id=org_id, queues=("a",) if token == "t1" else None,  # noqa: S105
            ),
            "revoke": RevokeToken(token), "use": NoteUse(token),
        }  # fmt: skip
        self.both("alter", [changes[what]], now=self.now, by=who)

    @invariant()
    def tokens_are_the_same(self) -> None:
        self.both("read", AllTokens())
