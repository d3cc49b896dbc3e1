"""In somebody's name: each change is noted with itself, and what is not theirs is not there."""

from __future__ import annotations

from base64 import b64encode

import msgspec
import pytest

from windlass.core.acting import By
from windlass.core.alterations import (
    Acquire,
    Alteration,
    Cancel,
    CancelGroup,
    Delete,
    Grant,
    MoveBeside,
    Note,
    NoteUse,
    PutGroup,
    PutLimit,
    PutQueue,
    PutWebhook,
    ReleaseHold,
    Renew,
    Replay,
    RetryGroup,
    RevokeToken,
    RunNow,
    SetPaused,
    SetPriority,
    Swap,
)
from windlass.core.queries import AllLimits, AllQueues, AllTokens, AuditLog, AuditPage, LastAudited, OwnersOf
from windlass.errors import InvalidInput, OutOfScope
from windlass.records import AuditLine, GroupOwner
from windlass.testing.conformance.tokens import create
from windlass.testing.conformance.trial import MINUTE, Suite, Trial, promise

ADA = By(actor="ada")
ACME = By(actor="token:acme", org_id="acme")
MAIL = By(actor="token:mail", queues=("mail",))


class ActingPromises(Suite):
    @promise
    async def test_a_change_in_somebody_s_name_leaves_a_line(self, t: Trial) -> None:
        """Who, what, on what, when, and what else was said; without a name there is none."""
        job, other = await t.enqueue(), await t.enqueue()
        assert await by(t, ADA, Cancel(job, "not wanted")) == ["applied"]
        await t.alter(Cancel(other))
        assert await t.driver.read(AuditLog()) == [
            AuditLine(
                at=t.now, actor="ada", action="job.cancel", subject=f"job:{job}", detail='{"reason":"not wanted"}', count=1
            )
        ]  # fmt: skip

    @promise
    async def test_what_changed_nothing_is_not_noted(self, t: Trial) -> None:
        """Nor is what only says that work goes on; a wish that will be met later is."""
        running, job = await t.running(), await t.enqueue()
        assert await by(t, ADA, Cancel("nobody")) == ["not_found"]
        assert await by(t, ADA, Delete(job)) == ["wrong_state"]
        assert await by(t, ADA, SetPaused("default", False)) == ["unchanged"]
        await by(t, ADA, create("x"))
        await by(t, ADA, NoteUse("x"))
        assert [line.action for line in await t.driver.read(AuditLog())] == ["token.create"]
        assert await by(t, ADA, Cancel(running.id)) == ["requested"]
        await by(t, ADA, Acquire("h", "b", "ada", MINUTE))
        await by(t, ADA, Grant("h", MINUTE), Renew("h", MINUTE))
        await by(t, ADA, ReleaseHold("h", by="ada"))
        actions = [line.action for line in await t.driver.read(AuditLog())]
        assert actions == ["token.create", "job.cancel", "hold.acquire", "hold.released"]

    @promise
    async def test_a_batch_is_one_line_for_each_action(self, t: Trial) -> None:
        """With how they were chosen, how many were changed, and which."""
        jobs = [await t.enqueue() for _ in range(3)]
        chosen = msgspec.structs.replace(ADA, selection="queue=default")
        await by(t, chosen, *(Cancel(job) for job in jobs), Cancel("nobody"), SetPaused("default", True))
        first, second = await t.driver.read(AuditLog())
        assert (first.action, first.subject, first.count, first.selection) == (
            "job.cancel", "3 jobs", 3, "queue=default",
        )  # fmt: skip
        assert msgspec.json.decode(first.detail or "") == {"subjects": [f"job:{job}" for job in jobs]}
        assert (second.action, second.subject, second.count) == ("queue.pause", "queue:default", 1)
        assert len(await t.driver.read(AuditLog(since=t.now))) == 2
        assert await t.driver.read(AuditLog(since=t.now + 1)) == []

    @promise
    async def test_a_line_is_written_with_its_change_or_not_at_all(self, t: Trial) -> None:
        """A call that is refused leaves none."""
        job = await t.enqueue()
        with pytest.raises(InvalidInput):
            await by(t, ADA, Cancel(job), PutLimit("", 1))
        assert await t.driver.read(AuditLog()) == []
        assert (await t.job(job)).state == "queued"

    @promise
    async def test_secrets_do_not_reach_the_audit_log(self, t: Trial) -> None:
        """Neither a webhook's, nor the hash of a token's."""
        secret = "whsec_" + b64encode(b"canary".ljust(32, b"!")).decode()
        hook = PutWebhook(webhook_id="w", url="https://example.com/x", events=("job.recovered",), secret=secret)
        await by(t, ADA, hook, create("x", digest=b"canary".ljust(32, b"!")))
        told = msgspec.json.encode(await t.driver.read(AuditLog()))
        assert b"canary" not in told
        assert secret.encode() not in told
        assert b"example.com" in told

    @promise
    async def test_a_note_is_a_line_of_its_own(self, t: Trial) -> None:
        """Of what changes no row here; only in somebody's name."""
        assert await by(t, ACME, Note("session.sign_in", "dashboard", detail="from 127.0.0.1")) == ["applied"]
        [line] = await t.driver.read(AuditLog())
        assert (line.actor, line.org_id, line.action, line.detail) == (
            "token:acme", "acme", "session.sign_in", '{"note":"from 127.0.0.1"}',
        )  # fmt: skip
        for bad in (Note("", "x"), Note("a", ""), Note("a", "b", -1)):
            with pytest.raises(InvalidInput):
                await by(t, ADA, bad)
        with pytest.raises(InvalidInput):
            await t.alter(Note("a", "b"))
        with pytest.raises(InvalidInput):
            await by(t, By(actor=""), Note("a", "b"))
        assert len(await t.driver.read(AuditLog())) == 1

    @promise
    async def test_a_foreign_job_is_not_found(self, t: Trial) -> None:
        """Whatever is to be done to it, by whoever is bound to another org or to other queues; nothing is changed."""
        theirs = await t.enqueue(org_id="acme", queue="mail")
        foreign, nobodys = await t.enqueue(org_id="evil", queue="a"), await t.enqueue(queue="a")
        for bound in (ACME, MAIL):
            for job in (foreign, nobodys):
                before = await t.job(job)
                for change in (
                    Cancel(job), Replay(job, "child"), RunNow(job), Delete(job), SetPriority(job, 7), Swap(theirs, job),
                    MoveBeside(job, theirs, "before"),
                ):  # fmt: skip
                    assert await by(t, bound, change) == ["not_found"], change
                assert await t.job(job) == before
            assert await by(t, bound, SetPriority(theirs, 3)) in (["applied"], ["unchanged"])
        assert await by(t, ACME, Cancel(foreign), Cancel(theirs)) == ["not_found", "applied"]
        assert {line.actor for line in await t.driver.read(AuditLog())} <= {"token:acme", "token:mail"}
        assert (await t.job(foreign)).state == "queued"

    @promise
    async def test_a_group_with_a_foreign_member_is_not_found(self, t: Trial) -> None:
        """One that is all theirs is; one that has no members yet is nobody's."""
        await t.alter(PutGroup("empty", 2))
        assert await by(t, ACME, CancelGroup("empty"), RetryGroup("empty", ())) == ["not_found", "not_found"]
        await t.alter(PutGroup("mixed", 2))
        await t.alter(PutGroup("own", 1))
        await t.enqueue(org_id="acme", group_id="mixed", queue="mail")
        await t.enqueue(org_id="evil", group_id="mixed")
        await t.enqueue(org_id="acme", group_id="own")
        assert await by(t, ACME, CancelGroup("mixed"), RetryGroup("mixed", ())) == ["not_found", "not_found"]
        assert await by(t, ACME, CancelGroup("own")) == ["applied"]
        assert await t.driver.read(OwnersOf(ids=("own", "mixed", "none"))) == [
            GroupOwner("mixed", "acme", "mail"), GroupOwner("mixed", "evil", "default"),
            GroupOwner("own", "acme", "default"),
        ]  # fmt: skip

    @promise
    async def test_who_is_bound_does_not_reach_what_all_share(self, t: Trial) -> None:
        """Limits, webhooks, queues with the jobs of other orgs: refused, and nothing of the call is done."""
        job = await t.enqueue(org_id="acme", queue="mail")
        for bound, change in (
            (ACME, SetPaused("mail", True)), (ACME, PutQueue("mail")), (ACME, PutLimit("org:acme", 99)),
            (ACME, Acquire("h", "mail", "x", MINUTE)), (MAIL, PutLimit("queue:mail", 99)), (ACME, create("x")),
            (ACME, create("x", org_id="evil")), (MAIL, create("x")), (MAIL, create("x", queues=("mail", "a"))),
        ):  # fmt: skip
            with pytest.raises(OutOfScope):
                await by(t, bound, Cancel(job), change)
        assert (await t.job(job)).state == "queued"
        assert await t.driver.read(AllQueues()) == []
        assert await t.driver.read(AllLimits()) == []
        assert await t.driver.read(AuditLog()) == []

    @promise
    async def test_who_is_bound_to_queues_has_these(self, t: Trial) -> None:
        """They pause and hold them; others are not there."""
        assert await by(t, MAIL, SetPaused("mail", True), SetPaused("a", True)) == ["applied", "not_found"]
        await t.alter(Acquire("h", "a", "x", MINUTE))
        assert await by(t, MAIL, ReleaseHold("h", by="mail"), Renew("h", MINUTE)) == ["not_found", "not_found"]
        assert [queue.name for queue in await t.driver.read(AllQueues())] == ["mail"]

    @promise
    async def test_a_token_reaches_no_further_than_who_made_it(self, t: Trial) -> None:
        """And only tokens inside of one's own bounds can be revoked."""
        assert await by(t, ACME, create("own", org_id="acme")) == ["applied"]
        assert await by(t, MAIL, create("narrow", queues=("mail",))) == ["applied"]
        await t.alter(create("root", scopes=("admin",)))
        assert await by(t, ACME, RevokeToken("root"), RevokeToken("own")) == ["not_found", "applied"]
        assert await by(t, MAIL, RevokeToken("root"), RevokeToken("narrow")) == ["not_found", "applied"]
        revoked = {token.token_id for token in await t.driver.read(AllTokens()) if token.revoked_at is not None}
        assert revoked == {"own", "narrow"}

    @promise
    async def test_the_audit_log_is_read_by_the_page(self, t: Trial) -> None:
        """Newest first, by actor, action, noun, subject, org and time."""
        for n in range(5):
            await by(t, ADA if n % 2 else ACME, Note("thing.poke", f"thing:{n}"))
            t.clock.advance(1)
        await by(t, ADA, Note("think", "thing:0"))
        first = await t.driver.read(AuditPage(limit=4))
        assert [entry.line.subject for entry in first] == ["thing:0", "thing:4", "thing:3", "thing:2"]
        rest = await t.driver.read(AuditPage(limit=4, before=first[-1].number))
        assert [entry.line.subject for entry in rest] == ["thing:1", "thing:0"]

        async def subjects(page: AuditPage) -> list[str]:
            return [entry.line.subject for entry in await t.driver.read(page)]

        assert await subjects(AuditPage(actor="ada")) == ["thing:0", "thing:3", "thing:1"]
        assert await subjects(AuditPage(org_id="acme")) == ["thing:4", "thing:2", "thing:0"]
        assert len(await subjects(AuditPage(action="thing"))) == len(await subjects(AuditPage(action="thing.poke"))) == 5
        assert await subjects(AuditPage(action="thin")) == []
        assert await subjects(AuditPage(subject="thing:0", actor="ada")) == ["thing:0"]
        assert await subjects(AuditPage(since=t.now - 1)) == ["thing:0", "thing:4"]
        assert await subjects(AuditPage(actor="ada", after=rest[0].number)) == ["thing:0", "thing:3"]
        assert await subjects(AuditPage(after=rest[0].number, before=first[1].number)) == ["thing:3", "thing:2"]
        with pytest.raises(InvalidInput):
            await t.driver.read(AuditPage(limit=0))

    @promise
    async def test_the_last_line_of_the_audit_log_is_known_by_its_number(self, t: Trial) -> None:
        """So that a search knows from where it looks back; of an empty log there is none."""
        assert await t.driver.read(LastAudited()) == []
        await by(t, ADA, Note("thing.poke", "thing:1"), Note("thing.poke", "thing:2"))
        [newest] = await t.driver.read(AuditPage(limit=1))
        assert await t.driver.read(LastAudited()) == [newest.number]


async def by(t: Trial, who: By, *changes: Alteration) -> list[str]:
    return [*await t.driver.alter(changes, now=t.now, by=who)]
