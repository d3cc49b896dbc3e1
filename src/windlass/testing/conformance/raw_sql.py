"""What even hand-made SQL cannot break. For drivers whose store enforces its rules itself (`capabilities.sql`).

Tables and columns have the same names in every SQL driver, so these statements do too.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from windlass.core.alterations import PutLimit
from windlass.core.changes import Report
from windlass.core.duties import Done, RecountLimits
from windlass.core.queries import AllLimits, DependantsOf, ParentsOf
from windlass.core.settle import Failed, Rejected
from windlass.drivers.values import Enqueued
from windlass.errors import InvalidInput
from windlass.testing.conformance.hand_made import HandMadePromises
from windlass.testing.conformance.trial import MINUTE, Trial, promise


class SqlPromises(HandMadePromises):
    @promise
    async def test_a_job_made_by_hand_works(self, t: Trial) -> None:
        """`insert into jobs (type)` makes a job with id, queue, payload, place and times; it runs like any other."""
        self.sql(t.driver, "insert into jobs (type) values ('by hand')")
        self.sql(t.driver, "insert into jobs (type, queue) values ('by hand too', 'default')")
        await t.driver.enqueue([t.new()], now=t.now)
        first, second, third = await t.claim()
        assert (first.type, first.payload, second.type) == ("by hand", b"{}", "by hand too")
        assert (await t.job(first.id)).position < (await t.job(second.id)).position < (await t.job(third.id)).position
        assert await t.ack(first) == "applied"

    @promise
    async def test_a_chain_whose_end_a_hand_tied_to_itself_is_walked_once(self, t: Trial) -> None:
        """It has no last link: the job that a key names stands for itself, and nobody can wait for it."""
        key = {"idempotency_scope": "s", "idempotency_key": "k"}
        first, other = [await t.running(**key), await t.running()]
        for job in (first, other):
            await t.end(job, Rejected("no"))
        self.sql(t.driver, f"update jobs set superseded_by = '{other.id}' where id = '{first.id}'")  # noqa: S608
        self.sql(t.driver, f"update jobs set superseded_by = '{first.id}' where id = '{other.id}'")  # noqa: S608
        assert await t.answer(**key) == Enqueued(first.id, existed=True)
        with pytest.raises(InvalidInput, match="after"):
            await t.enqueue(after=(first.id,))

    @promise
    async def test_a_chain_whose_beginning_a_hand_tied_to_itself_is_walked_once(self, t: Trial) -> None:
        """What it waited for, and who waits for it, is read; and retention deletes it."""
        self.sql(t.driver, "insert into jobs (id, type, retry_of) values ('ring', 'by hand', 'ring')")
        behind = await t.enqueue(after=("ring",))
        assert await t.driver.read(ParentsOf(job_id="ring")) == []
        assert [edge.job_id for edge in await t.driver.read(DependantsOf(job_id="ring"))] == [behind]
        [ring] = await t.claim()
        await t.ack(ring)
        await t.ack(await t.take())
        assert await t.prune(succeeded=0) == 2

    @promise
    async def test_a_recount_finds_who_waits_for_a_permit_that_is_there(self, t: Trial) -> None:
        """Whoever should have let it through could not, or somebody's hand was at work: nobody waits for ever."""
        jobs = []
        for key in ("key:j", "key:k", "key:l"):
            await t.alter(PutLimit(key, 1))
            jobs.append(await t.enqueue(limit_keys=(key,)))
            self.sql(t.driver, f"update jobs set ready = not ready, parked_on = '{key}' where parked_on is null")  # noqa: S608
        assert await t.claim() == []
        await t.maintain(RecountLimits())
        assert [one.id for one in await t.claim()] == jobs

    @promise
    async def test_a_recount_gives_a_running_job_the_permits_that_it_should_have(self, t: Trial) -> None:
        """Also where what is counted fits what is held, and both are too little."""
        await t.alter(PutLimit("type:work", 2))
        await t.alter(PutLimit("key:other", 2))
        job = await t.running()
        free = await t.running(type="free")
        self.sql(t.driver, "update jobs set permits = null")
        self.sql(t.driver, "update limits set used = 0")
        assert await t.maintain(RecountLimits()) == Done(1, more=True)
        assert [row.used for row in await t.driver.read(AllLimits())] == [0, 1]
        assert [one.permits for one in await t.jobs([job.id, free.id])] == [("type:work",), ()]
        assert await t.maintain(RecountLimits()) == Done(0)

    @promise
    async def test_who_leads_until_no_time_leads_no_more(self, t: Trial) -> None:
        """By hand the end of a term may be taken away: the next one who asks begins a term of its own."""
        for name in ("one", "two"):
            await t.beat(name)
        before = await t.lead("one")
        self.sql(t.driver, "update leader set leader_until = null")
        after = await t.lead("two")
        assert (after.worker_id, after.epoch) == ("two", before.epoch + 1)

    @promise
    async def test_a_job_without_a_type_is_refused(self, t: Trial) -> None:
        """The one thing a job needs."""
        self._refused(t, "insert into jobs (queue) values ('q')", "insert into jobs (type) values ('')")

    @promise
    async def test_lists_and_headers_that_cannot_be_read_are_refused(self, t: Trial) -> None:
        """A claim reads those of all jobs at once: one that it could not read would stop everybody."""
        job_id = await t.enqueue()
        for column in ("limit_keys", "tags", "headers"):
            other = "[]" if column == "headers" else "{}"
            some = '{"a": 1}' if column == "headers" else '["a", 1]'
            nested, loose = ('{"a": ["b"]}', '{a: "b"}') if column == "headers" else ('[["a"]]', '["a",]')
            for text in ("nonsense", "7", "null", '"text"', other, some, nested, loose):
                self._refused(
                    t,
                    f"insert into jobs (type, {column}) values ('by hand', '{text}')",  # noqa: S608
                    f"update jobs set {column} = '{text}' where id = '{job_id}'",  # noqa: S608
                )
        assert [job.id for job in await t.claim()] == [job_id]

    @promise
    async def test_half_a_character_in_a_list_stops_nobody(self, t: Trial) -> None:
        """JSON can say it, UTF-8 cannot; nor does what is no text. A store refuses it, or it is read as something else."""
        half = "\\ud800"
        for column, text in (("headers", f'{{"a": "{half}"}}'), ("tags", f'["{half}"]'), ("limit_keys", f'["{half}"]')):
            with suppress(Exception):  # the store's own refusal, whatever its class
                self.sql(t.driver, f"insert into jobs (type, {column}) values ('by hand', '{text}')")  # noqa: S608
        job_id = await t.enqueue()
        claimed = await t.claim()
        assert claimed[-1].id == job_id
        assert [await t.ack(job) for job in claimed] == ["applied"] * len(claimed)
        for job in claimed:
            (await t.job(job.id)).headers.get("a", "").encode()
        with suppress(Exception):
            self.sql(t.driver, "update runs set artifacts = '[1, {\"a\": null}]'")
        for job in claimed:
            assert all(isinstance(one, str) for run in await t.driver.runs(job.id) for one in run.artifacts)

    @promise
    async def test_identity_and_origin_never_change(self, t: Trial) -> None:
        """id, type, org, template, schedule, group, retry_of, created_at, queued_at, policies."""
        job = await t.job(await t.enqueue(org_id="o", template_id="t", group_id="g"))
        for column, value in (
            ("id", "'x'"), ("type", "'x'"), ("org_id", "'x'"), ("org_id", "null"), ("template_id", "'x'"),
            ("schedule_id", "'x'"), ("group_id", "null"), ("retry_of", "'x'"), ("retry_mode", "'new_job'"),
            ("crash_policy", "'fail'"), ("history", "'failures'"), ("created_at", self.instant(job.created_at + 1)),
            ("queued_at", self.instant(job.queued_at + 1)),
        ):  # fmt: skip
            self._refused(t, f"update jobs set {column} = {value} where id = '{job.id}'")  # noqa: S608
        assert await t.job(job.id) == job

    @promise
    async def test_the_payload_is_frozen_by_the_first_claim(self, t: Trial) -> None:
        """Before it, a hand may still correct it."""
        job_id = await t.enqueue()
        self.sql(t.driver, f"update jobs set codec = 'raw' where id = '{job_id}'")  # noqa: S608
        job = await t.take()
        await t.retry(job)
        self._refused(
            t,
            f"update jobs set codec = 'json' where id = '{job_id}'",  # noqa: S608
            f"update jobs set headers = '{{}}' where id = '{job_id}'",  # noqa: S608
        )

    @promise
    async def test_priority_and_position_change_only_while_queued(self, t: Trial) -> None:
        """Order is a matter of the queue."""
        job_id = await t.enqueue()
        self.sql(t.driver, f"update jobs set priority = 3, position = 7 where id = '{job_id}'")  # noqa: S608
        await t.take()
        self._refused(
            t,
            f"update jobs set priority = 4 where id = '{job_id}'",  # noqa: S608
            f"update jobs set position = 8 where id = '{job_id}'",  # noqa: S608
        )

    @promise
    async def test_running_is_leased_and_leased_is_running(self, t: Trial) -> None:
        """A lease is a pair, and exists exactly while the job runs."""
        job = await t.running()
        queued = await t.enqueue()
        for change, job_id in (
            ("state = 'queued'", job.id), ("lease_token = null", job.id), ("lease_expires_at = null", job.id),
            ("lease_token = null, lease_expires_at = null", job.id), ("state = 'running'", queued),
            (f"lease_token = 'x', lease_expires_at = {self.instant(1)}", queued), ("state = 'nonsense'", queued),
            ("history = 'some'", queued),
            ("attempts = -1", queued), ("lost = -1", queued), ("timeout_ns = -1", queued), ("max_attempts = -1", queued),
            (f"finished_at = {self.instant(1)}", queued), ("state = 'dead'", queued), ("dead_kind = 'exhausted'", queued),
            ("state = 'succeeded'", queued), ("skipped = 1", queued), ("parked_on = 'x'", queued),
        ):  # fmt: skip
            self._refused(t, f"update jobs set {change} where id = '{job_id}'")  # noqa: S608

    @promise
    async def test_terminal_states_are_final(self, t: Trial) -> None:
        """Succeeded and cancelled never change; dead goes back only to the queue, and only on same_job rows."""
        done = await t.running()
        await t.ack(done)
        chained = await t.running(retry_mode="new_job", crash_policy="fail", max_attempts=1)
        await t.end(chained, Failed("boom"))
        back = "state = 'queued', finished_at = null, dead_kind = null, dead_at = null, dead_reason = null"
        self._refused(
            t,
            f"update jobs set state = 'queued', finished_at = null where id = '{done.id}'",  # noqa: S608
            f"update jobs set finished_at = {self.later('finished_at')} where id = '{done.id}'",  # noqa: S608
            f"update jobs set started_at = {self.later('started_at')} where id = '{done.id}'",  # noqa: S608
            f"update jobs set {back} where id = '{chained.id}'",  # noqa: S608
            f"update jobs set dead_reason = 'other' where id = '{chained.id}'",  # noqa: S608
            f"update jobs set dead_kind = 'lost' where id = '{chained.id}'",  # noqa: S608
        )

    @promise
    async def test_a_never_twice_job_never_returns_to_the_queue(self, t: Trial) -> None:
        """running → queued is refused on new_job rows, and a second execution too."""
        job = await t.running(retry_mode="new_job", crash_policy="fail")
        self._refused(
            t,
            f"update jobs set state = 'queued', lease_token = null, lease_expires_at = null where id = '{job.id}'",  # noqa: S608
            f"update jobs set executions = 2 where id = '{job.id}'",  # noqa: S608
        )

    @promise
    async def test_a_run_that_has_ended_never_changes(self, t: Trial) -> None:
        """Not its status, times, error or exit code; artifacts only grow."""
        job = await t.running()
        await t.end(job, Failed("boom"), report=Report(exit_code=1, artifacts=("a.txt",)))
        self._refused(
            t,
            "update runs set status = 'completed'",
            "update runs set status = null, finished_at = null",
            f"update runs set finished_at = {self.later('finished_at')}",  # noqa: S608
            f"update runs set started_at = {self.later('started_at')}",  # noqa: S608
            "update runs set error = 'other'",
            "update runs set exit_code = 0",
            "update runs set worker_id = 'other'",
            "update runs set artifacts = '[]'",
            """update runs set artifacts = '["b.txt"]'""",
            f"update runs set params = {self.blob('00')}",  # noqa: S608
        )
        self.sql(t.driver, """update runs set artifacts = '["a.txt","b.txt"]'""")
        assert (await t.last_run(job.id)).artifacts == ("a.txt", "b.txt")

    @promise
    async def test_only_finished_jobs_are_deleted_and_their_runs_with_them(self, t: Trial) -> None:
        """A run is never deleted alone, nor orphaned."""
        job, queued = await t.running(), await t.enqueue()
        self._refused(
            t,
            f"delete from jobs where id = '{job.id}'",  # noqa: S608
            f"delete from jobs where id = '{queued}'",  # noqa: S608
            "delete from runs",
        )
        await t.ack(job)
        self._refused(t, "delete from runs")
        self.sql(t.driver, f"delete from jobs where id = '{job.id}'")  # noqa: S608
        assert self.sql(t.driver, "select count(*) from runs")[0][0] == 0

    @promise
    async def test_a_run_belongs_to_a_job(self, t: Trial) -> None:
        """A run for a job that does not exist is refused by the foreign key."""
        columns = "(job_seq, attempt_no, run_id, queue, type, claimed_at)"
        self._refused(t, f"insert into runs {columns} values (999, 1, 'r', 'q', 't', {self.instant(1)})")  # noqa: S608

    @promise
    async def test_a_hand_made_change_is_visible_in_updated_at(self, t: Trial) -> None:
        """The touch trigger acts for hands only: the engine's own writes carry its own time."""
        job_id = await t.enqueue()
        before = (await t.job(job_id)).updated_at
        self.sql(t.driver, f"update jobs set max_lost = 9 where id = '{job_id}'")  # noqa: S608
        touched = (await t.job(job_id)).updated_at
        assert touched > before
        t.clock.advance(MINUTE)
        await t.take()
        assert (await t.job(job_id)).updated_at == max(t.now, touched + 1)

    @promise
    async def test_the_audit_log_is_append_only(self, t: Trial) -> None:
        """No update, no delete."""
        self.sql(t.driver, f"insert into audit (at, actor, action, subject) values ({self.instant(1)}, 'a', 'b', 'c')")  # noqa: S608
        self._refused(t, "update audit set actor = 'x'", "delete from audit")

    @promise
    async def test_one_active_reservation_and_one_child_per_retry(self, t: Trial) -> None:
        """The database itself keeps what must be unique unique."""
        columns = "(reservation_id, queue, reserved_by, reserved_at, expires_at)"
        reserve = f"insert into reservations {columns} values ('%s', 'q', 'me', {self.instant(1)}, {self.instant(2)})"  # noqa: S608
        self.sql(t.driver, reserve % "a")
        self._refused(t, reserve % "b")
        self.sql(t.driver, "insert into jobs (type, retry_of) values ('x', 'parent')")
        self._refused(t, "insert into jobs (type, retry_of) values ('x', 'parent')")
        self.sql(t.driver, "insert into jobs (type, retry_of, manual) values ('x', 'parent', true)")
        self.sql(t.driver, "insert into jobs (type, dedupe_key) values ('x', 'd')")
        self._refused(t, "insert into jobs (type, dedupe_key) values ('x', 'd')")
        self.sql(t.driver, f"insert into jobs (type, schedule_id, fire_at) values ('x', 's', {self.instant(5)})")  # noqa: S608
        self._refused(t, f"insert into jobs (type, schedule_id, fire_at) values ('x', 's', {self.instant(5)})")  # noqa: S608

    def _rows(self, t: Trial, table: str, good: dict[str, str], *nonsense: dict[str, str]) -> None:
        """One row that is stored, and others that differ from it in a few columns and are refused."""
        for number, changed in enumerate(({}, *nonsense)):
            row = {**good, **changed}
            statement = f"insert into {table} ({', '.join(row)}) values ({', '.join(row.values())})"  # noqa: S608
            if number == 0:
                self.sql(t.driver, statement)
                self.sql(t.driver, f"delete from {table}")  # noqa: S608 - what is refused then is not refused as a second one
            else:
                with pytest.raises(Exception, match=r"(?i)constraint"):
                    self.sql(t.driver, statement)

    @promise
    async def test_a_schedule_that_makes_no_sense_is_refused(self, t: Trial) -> None:
        """Its name, rule and zone are there; what it does about missed times and about overlaps is known; while it is
        paused it has no next time."""
        at = self.instant(t.now)
        good = {
            "schedule_id": "'s'", "template_id": "'t'", "name": "'n'", "cron_expression": "'@daily'", "next_trigger_at": at,
            "created_at": at, "updated_at": at,
        }  # fmt: skip
        self._rows(
            t, "schedules", good, {"schedule_id": "''"}, {"template_id": "''"}, {"name": "''"}, {"name": "null"},
            {"cron_expression": "''"}, {"cron_expression": "null"}, {"timezone": "''"}, {"catch_up": "'some'"},
            {"catch_up_cap": "0"}, {"catch_up_cap": "-1"}, {"overlap": "'maybe'"}, {"jitter": "-1"}, {"enabled": "false"},
            {"enabled": "null"}, {"created_at": "null"},
        )  # fmt: skip
        self.sql(t.driver, f"insert into schedules ({', '.join(good)}) values ({', '.join(good.values())})")  # noqa: S608
        again = {**good, "schedule_id": "'other'"}
        self._refused(t, f"insert into schedules ({', '.join(again)}) values ({', '.join(again.values())})")  # noqa: S608

    @promise
    async def test_a_template_that_makes_no_sense_is_refused(self, t: Trial) -> None:
        """It names a task and a queue, and its versions count from one, each once."""
        at = self.instant(t.now)
        good = {
            "template_id": "'t'", "version": "1", "name": "'n'", "type": "'work'", "queue": "'q'",
            "params": self.blob("7b7d"), "created_at": at,
        }  # fmt: skip
        self._rows(
            t, "templates", good, {"template_id": "''"}, {"version": "0"}, {"version": "null"}, {"name": "''"},
            {"type": "''"}, {"type": "null"}, {"queue": "''"}, {"queue": f"'{'q' * 201}'"}, {"params": "null"},
            {"created_at": "null"},
        )  # fmt: skip
        self.sql(t.driver, f"insert into templates ({', '.join(good)}) values ({', '.join(good.values())})")  # noqa: S608
        again = {**good, "template_id": "'other'"}
        self._refused(t, f"insert into templates ({', '.join(again)}) values ({', '.join(again.values())})")  # noqa: S608

    @promise
    async def test_a_group_that_makes_no_sense_is_refused(self, t: Trial) -> None:
        """Its members are counted once each, and it ends with the last of them."""
        at = self.instant(t.now)
        good = {"group_id": "'g'", "total": "2", "remaining": "1", "failed": "1", "created_at": at}
        self._rows(
            t, "groups", good, {"mode": "'some'"}, {"on_failure": "'panic'"}, {"total": "3"}, {"remaining": "2"},
            {"total": "0", "remaining": "-1"}, {"total": "0", "remaining": "0", "failed": "0"},
            {"succeeded": "-1", "failed": "2"}, {"cancelled": "-1", "failed": "2"}, {"failed": "-1", "remaining": "3"},
            {"finished_at": at}, {"remaining": "0", "succeeded": "1"}, {"created_at": "null"}, {"group_id": "null"},
        )  # fmt: skip

    @promise
    async def test_a_limit_that_makes_no_sense_is_refused(self, t: Trial) -> None:
        """Permits are counted from none; a rate is whole, lets something pass, and is nothing by halves; a weight is more
        than nothing: claims divide by both."""
        at = self.instant(t.now)
        rate = {"tokens": "1.0", "burst": "2.0", "per_second": "0.5", "refilled_at": at}
        good = {"key": "'k'", "used": "1", "max_used": "1", "weight": "2.0", "wake_at": at, **rate}
        self._rows(
            t, "limits", good, {"key": "''"}, {"key": "null"}, {"used": "-1"}, {"used": "null"}, {"max_used": "-1"},
            *({column: "null"} for column in rate), {"tokens": "-0.5"}, {"tokens": "2.5"}, {"per_second": "0.0"},
            {"per_second": "-1.0"}, {"burst": "0.5", "tokens": "0.5"}, {"weight": "0.0"}, {"weight": "-1.0"},
            {"weight": "null"}, {"weight": self.endless()}, {"per_second": self.endless()},
            {"burst": self.endless()},
        )  # fmt: skip
        self._rows(t, "limits", {"key": "'k'"})

    @promise
    async def test_a_queue_or_a_share_that_makes_no_sense_is_refused(self, t: Trial) -> None:
        """How it orders, places and ages its jobs is known; a turn does not end before it begins."""
        at = self.instant(t.now)
        good = {"name": "'q'", "age_after": "5", "age_to": "9", "created_at": at, "updated_at": at}
        self._rows(
            t, "queues", good, {"name": "''"}, {"name": f"'{'q' * 201}'"}, {"positions": "'random'"},
            {"fairness": "'a bit'"}, {"age_after": "null"}, {"age_to": "null"}, {"age_after": "0"}, {"age_after": "-5"},
        )  # fmt: skip
        share = {"queue": "'q'", "share": "'=o'", "started": "1.0", "finish": "1.5"}
        self._rows(t, "shares", share, {"finish": "0.5"}, {"started": "null"}, {"queue": "null"})
