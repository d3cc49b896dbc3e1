"""Tokens and the audit log: every interleaving of two who make the same token, and of two who change the same job, each in
their own name. Who came too late has no line."""

from __future__ import annotations

from postgres.programs import alter, check, enqueue, new, wanted
from postgres.stepping import Stage
from windlass.core.acting import By
from windlass.core.alterations import Cancel, CreateToken, NoteUse, RevokeToken

ADA, BOB = By(actor="ada"), By(actor="bob", org_id="acme")


def create(token_id: str) -> CreateToken:
    return CreateToken(token_id=token_id, name="ci", digest=token_id.encode().ljust(32, b"."), scopes=("read",))


def noted(stage: Stage) -> list[tuple[str, str, int]]:
    rows = stage.ask("select actor, action, count from windlass.audit order by actor, action")
    return [(row[0], row[1], row[2]) for row in rows]


def test_two_who_make_one_name_make_one_token(stage: Stage) -> None:
    for outcome in stage.every(lambda: {"one": wanted(create("x"), by=ADA), "two": wanted(create("y"), by=ADA)}):
        assert sorted([outcome["one"], outcome["two"]]) == [["applied"], ["duplicate"]], outcome
        assert len(stage.ask("select token_id from windlass.api_tokens")) == 1, outcome
        assert noted(stage) == [("ada", "token.create", 1)], outcome


def test_a_use_that_meets_a_revocation_undoes_nothing(stage: Stage) -> None:
    alter(stage, create("x"))
    for outcome in stage.every(lambda: {"use": wanted(NoteUse("x")), "revoke": wanted(RevokeToken("x"), by=ADA)}):
        assert outcome["revoke"] == ["applied"], outcome
        [(revoked, used)] = stage.ask("select revoked_at is not null, last_used_at is not null from windlass.api_tokens")
        assert (revoked, used) == (True, outcome["use"] == ["applied"]), outcome


def test_a_change_is_noted_in_the_name_of_the_one_who_made_it(stage: Stage) -> None:
    enqueue(stage, new(id="a", org_id="acme"))
    for outcome in stage.every(lambda: {"ada": wanted(Cancel("a"), by=ADA), "bob": wanted(Cancel("a"), by=BOB)}):
        assert sorted([outcome["ada"], outcome["bob"]]) == [["applied"], ["unchanged"]], outcome
        winner = "ada" if outcome["ada"] == ["applied"] else "bob"
        assert noted(stage) == [(winner, "job.cancel", 1)], outcome
        check(stage, outcome)
