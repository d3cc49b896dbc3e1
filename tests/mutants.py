"""Plant bugs, one at a time, and see that the suites catch each of them.

    python tests/mutants.py              all of them, as a table
    python tests/mutants.py lease token  those whose description holds all these words
    python tests/mutants.py --first      no further tiers once one has caught a bug: half the time
    --seconds=240                        in an order drawn by lot, as many as there is time for
    --healthy                            the tests have just passed: do not run them on the healthy code first

Each mutant is a copy of src/ with one text replaced. It is caught when a tier that passes on the healthy code fails on
the mutant. A replacement that no longer matches is an error: the table must speak of the code as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from mutants_of_acceptance import ACCEPTANCE
from mutants_of_access import ACCESS
from mutants_of_bench import BENCH
from mutants_of_capacity import CAPACITIES
from mutants_of_copying import COPYING
from mutants_of_frameworks import FRAMEWORKS
from mutants_of_groups import GROUPS
from mutants_of_history import HISTORY
from mutants_of_limits import LIMITS
from mutants_of_listings import LISTINGS
from mutants_of_observe import OBSERVE
from mutants_of_order import ORDER
from mutants_of_others import OTHERS
from mutants_of_packaging import PACKAGING
from mutants_of_postgres import POSTGRES
from mutants_of_processes import PROCESSES
from mutants_of_remote import REMOTE
from mutants_of_sealing import SEALINGS
from mutants_of_security import GUARDS
from mutants_of_testing import TESTING
from mutants_of_web import WEB
from mutants_of_webhooks import WEBHOOKS

ROOT = Path(__file__).parent.parent
PLANTED = (
    *POSTGRES, *ORDER, *ACCEPTANCE, *GROUPS, *PROCESSES, *LIMITS, *WEBHOOKS, *ACCESS, *LISTINGS, *WEB, *CAPACITIES, *BENCH,
    *HISTORY, *FRAMEWORKS, *REMOTE, *OBSERVE, *SEALINGS, *COPYING, *TESTING, *PACKAGING, *OTHERS, *GUARDS,
)  # fmt: skip

TIERS = {
    "core": ["tests/core"],
    "conformance": ["tests/drivers/test_conformance.py", "-k", "(TestMemory or TestSqlite) and not (Inline or Stdlib)"],
    "model": ["tests/drivers/test_model.py"],
    "transactions": ["tests/drivers/sqlite/test_transactions.py", "tests/drivers/test_memory_transactions.py"],
    "faults": ["tests/drivers/sqlite/test_faults.py", "tests/drivers/sqlite/test_crashes.py", "-k", "not kill_nine"],
    "sealing": ["tests/test_sealing.py", "tests/client/test_encryption.py", "-k", "not postgresql"],
    "injection": ["tests/security/test_injection.py", "-k", "request and sqlite"],
    "doctor": ["tests/security/test_doctor.py", "-k", "not server"],
    "fuzz": ["tests/security/test_fuzz.py"],
    "probe": ["tests/cli/test_commands.py", "-k", "probe"],
    "begin": ["tests/cli/test_commands.py", "-k", "init"],
    "missing": ["tests/installed/test_missing.py"],
    "imports": ["tests/installed/test_imports.py"],
    "lane": ["tests/drivers/sqlite/test_lane.py"],
    "breath": ["tests/drivers/sqlite/test_breath.py"],
    "others": ["tests/others"],
    "worker": [
        f"tests/worker/test_{part}.py" for part in ("settling", "leases", "passed_over", "lapsed", "prefetch", "shutdown")
    ],
    "rows_held": ["tests/worker/test_rows_held.py"],
    "lapsed": ["tests/worker/test_lapsed.py"],
    "suspects": ["tests/worker/test_suspects.py"],
    "running": ["tests/worker/test_running.py"],
    "isolation": ["tests/worker/test_processes.py", "tests/worker/test_commands.py", "tests/worker/test_runlogs.py"],
    "lines": ["tests/worker/test_process_lines.py"],
    "logs": ["tests/cli/test_logs.py"],
    "bench": ["tests/cli/test_bench.py"],
    "metrics": ["tests/telemetry/test_metrics.py"],
    "telemetry": [f"tests/telemetry/test_{part}.py" for part in ("tracing", "notify", "jsonlog", "sentry")],
    "scrapes": ["tests/web/test_watching.py", "-k", "metrics or count"],
    "simulator": ["tests/testing/test_seeds.py"],
    "elections": ["tests/coordinator/test_election.py"],
    "schedules": ["tests/coordinator/test_firing.py", "tests/client/test_schedules.py"],
    "accepted": ["tests/acceptance", "-k", "not (repair or recovery)"],
    "recovery": ["tests/acceptance/test_recovery_matrix.py", "-k", "sqlite"],
    "repair": ["tests/acceptance/test_repair.py", "-k", "sqlite"],
    "histories": ["tests/test_history.py"],
    "deaths": [f"tests/acceptance/test_recovery_of_{noun}.py" for noun in ("schedules", "holds")],
    "steps": ["tests/drivers/postgres/test_postgres_steps.py"],
    "leaders": ["tests/drivers/postgres/test_postgres_steps_of_leaders.py"],
    "fences": ["tests/drivers/postgres/test_postgres_fences.py"],
    "people": ["tests/drivers/postgres/test_postgres_steps_of_people.py"],
    "steps_of_retention": ["tests/drivers/postgres/test_postgres_steps_of_retention.py"],
    "steps_of_schedules": ["tests/drivers/postgres/test_postgres_steps_of_schedules.py"],
    "dependants": ["tests/drivers/postgres/test_postgres_steps_of_groups.py"],
    "holders": ["tests/drivers/postgres/test_postgres_steps_of_holders.py"],
    "limits": ["tests/drivers/postgres/test_postgres_steps_of_limits.py"],
    "passing": ["tests/drivers/postgres/test_postgres_steps_of_passing_on.py"],
    "backlogs": ["tests/drivers/test_backlogs.py", "-k", "not postgres"],
    "backlogs_on_postgres": ["tests/drivers/test_backlogs.py", "-k", "postgres"],
    "fair_queues": ["tests/drivers/test_large_fair_queues.py", "-k", "not postgres"],
    "many_limits": ["tests/drivers/test_many_limits.py", "-k", "not postgres"],
    "large_groups": ["tests/drivers/test_large_groups.py", "-k", "not postgres"],
    "callers": ["tests/drivers/postgres/test_callers.py"],
    "flights": ["tests/drivers/postgres/test_postgres_flights.py", "-x"],
    "mishaps": ["tests/drivers/postgres/test_postgres_mishaps.py", "-x"],
    "gathering": ["tests/drivers/postgres/test_postgres_gathering.py", "-x"],
    "lost": ["tests/drivers/postgres/test_postgres_lost_replies.py", "-x"],
    "commits": ["tests/drivers/postgres/test_postgres_slow_commits.py"],
    "order": ["tests/drivers/postgres/test_postgres_steps_of_order.py"],
    "holds": ["tests/drivers/postgres/test_postgres_steps_of_holds.py"],
    "mending": ["tests/drivers/postgres/test_postgres_steps_of_repair.py"],
    "promises": ["tests/drivers/postgres/test_postgres_conformance.py", "-k", "not (transaction or wake)"],
    "deliveries": ["tests/worker/test_webhooks.py"],
    "resources": ["tests/worker/test_resources.py"],
    "middleware": ["tests/worker/test_middleware.py"],
    "django": ["tests/frameworks/test_django.py"],
    "fastapi": ["tests/frameworks/test_fastapi.py"],
    "in_process": ["tests/worker/test_hooks.py"],
    "outgoing": ["tests/outgoing"],
    "people_of_webhooks": ["tests/test_admin_webhooks.py"],
    "steps_of_webhooks": ["tests/drivers/postgres/test_postgres_steps_of_webhooks.py"],
    "told": ["tests/testing/test_told.py"],
    "users_tests": ["tests/testing/test_for_users.py"],
    "users_faults": ["tests/testing/test_faults.py"],
    "plugin": ["tests/testing/test_plugin.py"],
    "listings": ["tests/drivers/test_listing_everywhere.py", "tests/test_finding.py", "-k", "not postgres"],
    "steps_of_listings": ["tests/drivers/postgres/test_postgres_steps_of_listings.py"],
    "rows": ["tests/drivers/postgres/test_postgres_listing.py", "tests/drivers/postgres/test_postgres_numbers.py"],
    "tokens": ["tests/test_tokens.py"],
    "acting": ["tests/test_acting.py", "-k", "memory"],
    "redaction": ["tests/test_redaction.py"],
    "canary": ["tests/test_canary.py", "-k", "memory or command"],
    "usage": ["tests/test_usage.py"],
    "ids": ["tests/test_ids.py"],
    "frame": ["tests/web/test_skeleton.py"],
    "doors": ["tests/web/test_access.py"],
    "roles": ["tests/web/test_who_may.py"],
    "serving": ["tests/cli/test_serving.py"],
    "pages": ["tests/web/test_pages.py"],
    "webhook_pages": ["tests/web/test_webhook_pages.py"],
    "group_page": ["tests/web/test_group_page.py"],
    "canary_served": ["tests/web/test_canary_served.py"],
    "requests_gone_wrong": ["tests/web/test_bad_input.py"],
    "watching": ["tests/web/test_watching.py"],
    "capacity": ["tests/core/test_pace.py", "tests/core/test_capacity.py"],
    "capacity_of_stores": ["tests/test_capacity.py", "-k", "memory"],
    "space": ["tests/drivers/sqlite/test_space.py"],
    "plans": ["tests/drivers/postgres/test_postgres_plans.py"],
    "cursor": ["tests/drivers/postgres/test_postgres_cursor.py"],
    "partitions": ["tests/drivers/postgres/test_postgres_partitions.py"],
    "protocol": ["tests/web/test_worker_protocol.py"],
    "far": ["tests/drivers/test_http.py"],
    "copies": ["tests/copying"],
    "by_sql": ["tests/drivers/postgres/test_postgres_sql_enqueue.py"],
}


@dataclass(frozen=True)
class Mutant:
    what: str
    file: str
    old: str
    new: str
    only: tuple[str, ...] = ()

    @property
    def tiers(self) -> tuple[str, ...]:
        """Tests of core cannot see a driver's mistake, nor those of drivers a worker's."""
        if self.file.startswith("worker/"):
            return self.only or ("simulator",)
        usual = ("core", "conformance", "model") if self.file.startswith("core/") else ("conformance", "model")
        return self.only or usual


SQL = "drivers/sqlite/sql/"
ACK = (
    "finished_at = done.value, permits = null, updated_at = max(:now, updated_at + 1)\n  from json_each(:items) as done\n"
    " where jobs.seq = cast(done.key as integer) and state = 'running' and "
)
READY = "  from jobs indexed by jobs_ready\n where queue = :queue and state = 'queued' and ready = 1\n order by "
MUTANTS = [
    Mutant("ack: the token guard is gone", SQL + "settle.sql",
           ACK + "lease_token = :token", ACK + ":token <> ''"),
    Mutant("ack: the instant of expiry still counts as valid", SQL + "settle.sql",
           ACK + "lease_token = :token and lease_expires_at >", ACK + "lease_token = :token and lease_expires_at >="),
    Mutant("ack: one refused takes its neighbours along", "drivers/sqlite/settlement.py",
           "        yield SQL.undo_ack()\n        yield SQL.end_ack()\n        return items\n",
           "        yield SQL.undo_ack()\n        yield SQL.end_ack()\n        return ()\n"),
    Mutant("claim: position before priority", SQL + "leases.sql",
           READY + "priority desc, position", READY + "position, priority desc"),
    Mutant("promote: < for <= on the due time", SQL + "leases.sql",
           "and parked_on is null and run_at <= :now\n    limit", "and parked_on is null and run_at < :now\n    limit"),
    Mutant("promote: one bite only, the rest waits for the next claim", "drivers/sqlite/leases.py",
           "bite=PROMOTE_BITE))) < PROMOTE_BITE:\n", "bite=PROMOTE_BITE))) < 2 * PROMOTE_BITE:\n"),
    Mutant("promote: what one transaction may not promote is passed over", "drivers/sqlite/leases.py",
           "    if due and not (yield from promote(queues, now)):\n        return [], True\n",
           "    if due:\n        yield from promote(queues, now)\n", ("backlogs",)),
    Mutant("pg promote: what one transaction may not promote is passed over", "drivers/postgres/leases.py",
           "    if not (yield from promote(queues, now)):\n        return Took([], more=True)\n",
           "    yield from promote(queues, now)\n", ("backlogs_on_postgres",)),
    Mutant("pg claim: who serves closed queues comes back for a token again and again", "drivers/postgres/leases.py",
           "            yield from wake(now, locked)\n        return Took([])\n",
           "            assert locked\n        return Took([])\n", ("backlogs_on_postgres",)),
    Mutant("settle: the lease is not cleared", SQL + "settle.sql",
           "lease_token = null, lease_expires_at = null, permits = null, last_token = :token, last_outcome = :outcome",
           "permits = null, last_token = :token, last_outcome = :outcome"),
    Mutant("expire: the run stays open", SQL + "leases.sql",
           "where job_seq in (select value from json_each(:seqs)) and status is null",
           "where job_seq in (select value from json_each(:seqs)) and status = 'open'"),
    Mutant("expire: the loss is not counted", SQL + "leases.sql", "lost = min(lost + 1", "lost = min(lost"),
    Mutant("expire: run_at survives the reclaim", SQL + "leases.sql", "ready = 1, run_at = null, lost", "ready = 1, lost"),
    Mutant("expire: never-twice jobs are taken back too", SQL + "leases.sql",
           "   and crash_policy = 'requeue' and cancel_requested_at is null", "   and cancel_requested_at is null"),
    Mutant("extend: counted from the old expiry", SQL + "leases.sql",
           "set lease_expires_at = max(:expires_at, iif", "set lease_expires_at = max(lease_expires_at + 1, iif"),
    Mutant("extend: updated_at stands still with the clock", SQL + "leases.sql",
           "coalesce(asked.note, progress_note)),\n       updated_at = max(:now, updated_at + 1)",
           "coalesce(asked.note, progress_note)),\n       updated_at = max(:now, updated_at)"),
    Mutant("settle: riders are skipped", "drivers/sqlite/settlement.py",
           "        if change.riders:\n            ridden[index] = change\n", ""),
    Mutant("settle: a refused unit's riders ride all the same", "drivers/sqlite/settlement.py",
           "            ridden.pop(index, None)\n", "            ridden.get(index)\n"),
    Mutant("groups: a snapshot is written back instead of a delta", "drivers/memory/dependencies.py",
           "after = count_member(before, ending, now, members)",
           "after = count_member(vars(tables).setdefault('old', before), ending, now)"),
    Mutant("groups: the last member does not finish the group", SQL + "groups.sql",
           "case when remaining <= :members then :now end", "case when remaining < :members then :now end"),
    Mutant("permits: a claim takes none", "core/limits.py", "limit = replace(limit, used=limit.used + count)",
           "limit = replace(limit, used=limit.used + 0 * count)", ("conformance",)),
    Mutant("permits: freed, but nobody is let through", "drivers/ops/limits.py",
           "            yield from self.let_through(permits, now, timed)\n", "", ("conformance",)),
    Mutant("permits: only the very first queue of those who wait is let through", SQL + "limits.sql",
           "later.queue > kinds.queue", "later.queue < ''", ("conformance",)),
    Mutant("permits: only the very first type of those who wait is let through", SQL + "limits.sql",
           "later.type > kinds.type", "later.type < ''", ("conformance",)),
    Mutant("permits: not given back when a lease is lost", "drivers/sqlite/leases.py",
           "        yield from GATE.free([strings_in(row[0]) for row in held], now)\n", "", ("conformance",)),
    Mutant("permits: a limit that came after the claim is forgotten by its end", SQL + "settle.sql",
           "   and (permits is null or :limited) and awaited = 0;\n\n-- name: ack_begun",
           "   and awaited = 0;\n\n-- name: ack_begun", ("conformance",)),
    Mutant("permits: a new limit does not count who runs", "drivers/ops/limits.py",
           "        yield self.sql.count_in(key=key, kind=kind, name=name, now=now)\n", "        kind, name, now\n",
           ("conformance",)),
    Mutant("limits: a queue gives more than its limit", "core/limits.py",
           "        return min((free for free in rooms if free is not None), default=None)\n",
           "        return None if rooms else 0\n", ("conformance",)),
    Mutant("limits: orgs are not bounded", "core/limits.py", '(f"org:{org_id}",)', '(f"orgs:{org_id}",)', ("conformance",)),
    Mutant("limits: what a program says again undoes a person", "core/limits.py",
           "limit is None or not change.declared or", "limit is None or change.declared or", ("conformance",)),
    Mutant("limits: a pause does not hold", "core/limits.py", "limit.paused_at is not None or (", "(", ("conformance",)),
    Mutant("rate: a bucket runs over", "core/counters.py", "return min(burst, tokens +", "return max(0.0, tokens +",
           ("conformance",)),
    Mutant("rate: nobody comes back for a token", "core/limits.py",
           "        return replace(limit, wake_at=next_token(limit, now))\n", "        return limit\n", ("conformance",)),
    Mutant("rate: a removed limit keeps those who wait", "drivers/ops/limits.py",
           'return "not_found"\n        yield from self.let_through([change.key], now)\n', 'return "not_found"\n',
           ("conformance",)),
    Mutant("turns: nobody is charged", "drivers/sqlite/leases.py", "        yield SQL.charge_share.many([(",
           "        list([(", ("conformance",)),
    Mutant("turns: an idle org saves up", "core/fairness.py",
           "base = self.clock if before is None else max(before.finish, self.clock)",
           "base = 0.0 if before is None else before.finish", ("conformance",)),
    Mutant("turns: weights do not count", "core/fairness.py",
           "return base + ahead / self._weights.get(share, 1.0) if ahead else base", "return base + ahead",
           ("conformance",)),
    Mutant("ageing: nobody is asked how long it waited", SQL + "limits.sql",
           "max(queued_at, coalesce(run_at, 0), coalesce(aged_at, 0)) <= :before\n        order",
           "queued_at <= :before\n        order",
           ("conformance",)),
    Mutant("chain: the child forgets its attempts", SQL + "jobs.sql",
           ":attempts, 0, 0, 0, max_attempts, max_lost, retry_mode", "0, 0, 0, 0, max_attempts, max_lost, retry_mode"),
    Mutant("chain: a duplicate is told the first link, not the head", "drivers/sqlite/jobs.py",
           "return str(head[0][0] if head else job_id)", "return str(job_id or head)"),
    Mutant("keys: a dedupe key is free while its job runs", SQL + "jobs.sql",
           "dedupe_key is not null and state in ('queued', 'running')", "dedupe_key is not null and state = 'queued'"),
    Mutant("keys: an expired key is taken an instant too long", SQL + "jobs.sql",
           "expires_at > :now);", "expires_at >= :now);"),
    Mutant("pause: a paused queue is claimed from", "drivers/sqlite/leases.py", "    if closed:\n", "    if not closed:\n"),
    Mutant("prune: links of a living chain are deleted", SQL + "duties.sql",
           "where finished_at is not null and superseded_by is null\n", "where finished_at is not null\n"),
    Mutant("prune: runs that nobody counted go too", "drivers/ops/retention.py",
           '{"watermark": counted}', '{"watermark": None and counted}'),
    Mutant("prune: an uncounted run does not keep the later links", SQL + "duties.sql",
           "on link.id = chain.retry_of)\n     select 1 from chain join runs",
           "on link.id = '' || chain.seq)\n     select 1 from chain join runs"),
    Mutant("prune: an uncounted run does not keep the group", SQL + "duties.sql",
           "where job_seq = member.seq and runs.finished_at > :watermark",
           "where job_seq = -member.seq and runs.finished_at > :watermark"),
    Mutant("prune: a group is forgotten with its first member", SQL + "duties.sql",
           "\n   and not exists (select 1 from jobs where jobs.group_id = groups.group_id)", ""),
    Mutant("keys: forgotten an instant too late", SQL + "duties.sql",
           "where expires_at is not null and expires_at <= :now\n", "where expires_at is not null and expires_at < :now\n"),
    Mutant("beat: a worker seems to have started anew", SQL + "fleet.sql",
           "last_heartbeat = excluded.last_heartbeat\n",
           "last_heartbeat = excluded.last_heartbeat, started_at = excluded.started_at\n"),
    Mutant("beat: one that was overtaken makes its worker look silent", SQL + "fleet.sql",
           "\n where workers.last_heartbeat <= excluded.last_heartbeat;", ";"),
    Mutant("extend: a renewal that was overtaken shortens the lease", SQL + "leases.sql",
           "max(:expires_at, iif(:now + :overtaken_by < updated_at, lease_expires_at, 0))", ":expires_at"),
    Mutant("extend: progress that was overtaken is told", SQL + "leases.sql",
           "coalesce(jobs.progress, asked.progress), coalesce(asked.progress, jobs.progress))",
           "coalesce(asked.progress, jobs.progress), coalesce(asked.progress, jobs.progress))"),
    Mutant("lead: a renewal that was overtaken shortens the term", SQL + "fleet.sql",
           "max(excluded.leader_until, coalesce(leader.leader_until, 0))", "excluded.leader_until"),
    Mutant("election: a term that was not prolonged counts from when that was asked for", "coordinator/election.py",
           "since = min(until - self._lease, asked_at)", "since = asked_at if until > asked_at else until - self._lease",
           ("elections", "simulator")),
    Mutant("lead: the instant of expiry still belongs to the leader", SQL + "fleet.sql",
           "is null or leader.leader_until <= :now or leader.worker_id",
           "is null or leader.leader_until < :now or leader.worker_id"),
    Mutant("lead: a lapsed leader goes on under its old epoch", SQL + "fleet.sql",
           "leader.epoch + (leader.leader_until is null or leader.leader_until <= :now)",
           "leader.epoch + (leader.worker_id <> excluded.worker_id)"),
    Mutant("lead: a new epoch with every renewal", SQL + "fleet.sql",
           "leader.epoch + (leader.leader_until is null or leader.leader_until <= :now)", "leader.epoch + 1"),
    Mutant("pg lead: who asks at the same moment takes it from the new leader", "drivers/postgres/sql/fleet.sql",
           "or leader.worker_id = excluded.worker_id;", "or leader.worker_id <> excluded.worker_id or leader.epoch > 0;",
           ("leaders",)),
    Mutant("lead: who is not registered leads", SQL + "fleet.sql",
           "where exists (select 1 from workers where id = :worker_id)\n", "where 1\n"),
    Mutant("leave: leadership stays", "drivers/ops/fleet.py",
           "    yield db.sql.abdicate(worker_id=change.worker_id, now=now)\n", ""),
    Mutant("leave: everybody's leadership ends", SQL + "fleet.sql",
           "leader_until = :now where worker_id = :worker_id and leader_until > :now",
           "leader_until = :now where :worker_id <> ''"),
    Mutant("core: a stale epoch is let through", "core/leadership.py",
           "epoch == current and leads(until, now)", "epoch <= current and leads(until, now)"),
    Mutant("core: an epoch outlives its leadership", "core/leadership.py",
           "(epoch == current and leads(until, now))", "epoch == current"),
    Mutant("samples: anybody may write them", "drivers/ops/samples.py",
           "    if not (yield from is_allowed(db, epoch, now)):\n        return None\n    yield db.sql.drop",
           "    yield db.sql.drop"),
    Mutant("dead workers: their leases stay", "drivers/ops/duties.py",
           "        yield db.sql.revoke(workers=db.texts(row[0] for row in dead), now=now)\n", "        assert dead\n"),
    Mutant("dead workers: removed an instant late", SQL + "duties.sql",
           "last_heartbeat <= :now - :silent_for", "last_heartbeat < :now - :silent_for"),
    Mutant("samples: an instant belongs to two minutes", SQL + "samples.sql",
           "finished_at < :minute + 60000000", "finished_at <= :minute + 60000000"),
    Mutant("samples: a bound belongs to the bucket below", SQL + "samples.sql",
           "when wait_us < 2000 then 4", "when wait_us <= 2000 then 4"),
    Mutant("samples: the first created is taken for the one due longest", "drivers/ops/samples.py",
           "first[queue] = min(due, earlier[0][0])", "first[queue] = max(due, earlier[0][0])"),
    Mutant("samples: what is due but not promoted has no age", "drivers/ops/samples.py",
           "        first[queue] = min(due, first.get(queue, due))\n", "        assert queue\n"),
    Mutant("samples: a minute is sampled twice", "drivers/ops/samples.py",
           "if sampled or not (yield from is_allowed(db, epoch, now)):", "if not (yield from is_allowed(db, epoch, now)):"),
    Mutant("usage: the watermark stands still", "drivers/ops/usage.py",
           "    yield db.sql.set_watermark(edge=edge)\n", ""),
    Mutant("usage: the last instant of a bite is not counted", SQL + "duties.sql",
           "finished_at > :counted and finished_at <= :edge\n group",
           "finished_at > :counted and finished_at < :edge\n group"),
    Mutant("usage: the first instant after the watermark is counted twice", SQL + "duties.sql",
           "finished_at > :counted and finished_at <= :edge\n group",
           "finished_at >= :counted and finished_at <= :edge\n group"),
    Mutant("usage: a second bite replaces the first", SQL + "duties.sql",
           "runs = usage_hourly.runs + excluded.runs, run_us = usage_hourly.run_us + excluded.run_us,\n"
           "       wait_us = usage_hourly.wait_us + excluded.wait_us, cpu_us = usage_hourly.cpu_us + excluded.cpu_us,\n"
           "       peak_rss = coalesce(max(usage_hourly.peak_rss, excluded.peak_rss), usage_hourly.peak_rss, "
           "excluded.peak_rss);\n\n"
           "-- name: count_late", "runs = excluded.runs;\n\n-- name: count_late"),
    Mutant("usage: who settles late is forgotten", "drivers/sqlite/settlement.py",
           '        yield from count_late([seqs[index] for index in late if answers[index] == "applied"])\n',
           "        assert edge\n"),
    Mutant("usage: a refused settlement is counted", "drivers/sqlite/settlement.py",
           'for index in late if answers[index] == "applied"])', "for index in late])"),
    Mutant("core: a roll-up does not wait for what is on its way", "core/usage.py",
           "return min(until, now - LATE)", "return min(until, now)"),
    Mutant("core: a bite divides an instant", "core/usage.py",
           "Bite(ends[limit - 1], True)", "Bite(ends[limit - 1] - 1, True)"),
    Mutant("people: a replayed member is not counted again", "drivers/ops/people.py",
           "        yield db.sql.uncount_failed(group_id=job.group_id)\n", "        assert job.group_id\n"),
    Mutant("schedules: a time is fired whoever fired it before", "core/schedules.py",
           "    if schedule.next_trigger_at != change.expected or change.as_of", "    if change.as_of"),
    Mutant("schedules: a firing may be older than its schedule", "core/schedules.py",
           " or change.as_of not in (None, schedule.updated_at):\n", ":\n"),
    Mutant("schedules: a firing may be older than its template", "core/schedules.py",
           "template.version != job.template_version or template.archived_at is not None",
           "template.archived_at is not None"),
    Mutant("schedules: an archived template makes jobs", "core/schedules.py",
           "template.version != job.template_version or template.archived_at is not None",
           "template.version != job.template_version"),
    Mutant("guards: what a wish turned is no repeat", "core/guards.py",
           "    if job.last_outcome == \"cancelled\" and job.state == \"cancelled\":", "    if False:"),
    Mutant("groups: a member may be named twice", "core/admission_of_changes.py",
           "        if len({job_id for job_id, _ in change.members}) < len(change.members):", "        if False:"),
    Mutant("schedules: fired, but it does not move on", SQL + "schedules.sql",
           "set last_triggered_at = :last_triggered_at, next_trigger_at = :next_trigger_at,",
           "set last_triggered_at = coalesce(:last_triggered_at, :next_trigger_at),"),
    Mutant("schedules: overlap is not judged", "drivers/ops/schedules.py",
           "        if may_join(schedule, *(yield from unfinished(db, schedule))):\n", "        if schedule:\n"),
    Mutant("schedules: a running job is no overlap", SQL + "schedules.sql",
           "where schedule_id = :schedule_id and state in ('queued', 'running');",
           "where schedule_id = :schedule_id and state in ('queued');"),
    Mutant("schedules: other schedules' jobs are an overlap", SQL + "schedules.sql",
           "where schedule_id = :schedule_id and state in ('queued', 'running');",
           "where :schedule_id <> '' and state in ('queued', 'running');"),
    Mutant("schedules: due an instant late", SQL + "schedules.sql",
           "where next_trigger_at <= :by order", "where next_trigger_at < :by order"),
    Mutant("schedules: a template in use is deleted", "drivers/ops/schedules.py",
           "    if (yield db.sql.schedules_of(template_id=template.template_id)):\n        return \"wrong_state\"\n", ""),
    Mutant("schedules: a skipped time counts as triggered", "drivers/ops/schedules.py",
           "            if not answer.existed:\n                made", "            if answer:\n                made"),
    Mutant("core of schedules: the same code undoes what a person changed", "core/schedules.py",
           "change.declared is not None and before.declared == change.declared:", "change.declared == '':"),
    Mutant("core of schedules: new code resumes what a person paused", "core/schedules.py",
           "change.enabled is not None else before is None or before.enabled", "change.enabled is not None else True"),
    Mutant("core of schedules: every put computes the next time anew", "core/schedules.py",
           'rhythm = ("cron_expression", "timezone", "enabled")', 'rhythm = ("updated_at",)'),
    Mutant("core of schedules: a new zone keeps the old next time", "core/schedules.py",
           'rhythm = ("cron_expression", "timezone", "enabled")', 'rhythm = ("cron_expression", "enabled")'),
    Mutant("core of schedules: a bite of a long catching up loses the rest", "core/schedules.py",
           "later = times[BITE] if len(times) > BITE and active is not None else next_time", "later = next_time",
           ("core",)),
    Mutant("core of schedules: an archived template makes jobs", "core/schedules.py",
           "template if template is not None and template.archived_at is None else None", "template", ("core",)),
    Mutant("core of schedules: what is on time counts as missed", "core/schedules.py",
           "ON_TIME: Final = 60 * SECOND", "ON_TIME: Final = SECOND", ("core",)),
    Mutant("core of schedules: a version is changed instead of added", "core/templates.py",
           "return replace(fresh, version=before.version + 1)", "return replace(fresh, version=before.version)"),
    Mutant("core of schedules: overrides are forgotten", "core/templates.py",
           "{**params_in(\"params\", params), **params_in(\"param_overrides\", overrides)}",
           "{**params_in(\"param_overrides\", overrides), **params_in(\"params\", params)}", ("core",)),
    Mutant("core of schedules: a time is met twice in a fold", "core/cron.py",
           "        if at > after:  #", "        if at:  #", ("core",)),
    Mutant("core of schedules: an interval is counted from when one looks", "core/cron.py",
           "at = anchor + ((after - anchor) // every + 1) * every", "at = after + every", ("core",)),
    Mutant("schedules, firing: a schedule that cannot make its job stops the others", "coordinator/firing.py",
           "    except UNFIRABLE as error:\n        [answer]", "    except ZeroDivisionError as error:\n        [answer]",
           ("schedules",)),
    Mutant("schedules, firing: a zone that is not known here ends the worker", "coordinator/firing.py",
           "        except UNFIRABLE as error:\n            if row",
           "        except ZeroDivisionError as error:\n            if row", ("schedules",)),
    Mutant("core of schedules: one that somebody has changed is moved on all the same", "core/schedules.py",
           "next_time(schedule, now),\n        as_of=schedule.updated_at,", "next_time(schedule, now),", ("schedules",)),
    Mutant("schedules, firing: who comes for a moment fires nothing", "worker/worker.py",
           "            await fire_all(self._client)\n", "", ("schedules",)),
    Mutant("core: attempts off by one", "core/settle.py",
           "attempts = one_more(job.attempts)\n    if used_up", "attempts = job.attempts\n    if used_up"),
    Mutant("core: > for >= at the maximum", "core/settle.py",
           "max(attempts, job.executions - job.skipped) >= job.max_attempts",
           "max(attempts, job.executions - job.skipped) > job.max_attempts"),
    Mutant("core: a snooze spends an execution", "core/changes.py",
           "run_at=bounded(change.run_at), skipped=1", "run_at=bounded(change.run_at), skipped=0"),
    Mutant("core: a repeat need not name the same outcome", "core/guards.py",
           'return job.last_outcome == outcome and not (outcome == "retry" and job.state in TERMINAL)', "return True"),
    Mutant("core: mismatch is told before expired", "core/guards.py",
           '    if expired and not lapsed:\n        return "expired"\n    if job.lease_token != token:\n',
           '    if expired and not lapsed and job.lease_token == token:\n        return "expired"\n'
           '    if job.lease_token != token:\n'),
    Mutant("core: a wish to cancel is forgotten by a retry", "core/settle.py",
           "if not cancel_requested or not comes_back(change):", "if not cancel_requested or comes_back(change):"),
    Mutant("core: max_lost is checked one loss late", "core/recovery.py", "lost >= job.max_lost", "lost > job.max_lost"),
    Mutant("memory: an expired lease is valid at its last instant", "core/eligibility.py",
           "job.lease_expires_at is not None and job.lease_expires_at <= now",
           "job.lease_expires_at is not None and job.lease_expires_at < now"),
    Mutant("delete: the links that came later are left", SQL + "people.sql",
           "jobs.id in (chain.retry_of, chain.superseded_by)", "jobs.id in (chain.retry_of)"),
    Mutant("delete: the ended links of a living chain go", "drivers/ops/people.py",
           "if any(state not in TERMINAL or awaited for _, state, awaited in chain):  "
           "# who owes others the word of its end, stays\n        return \"wrong_state\"\n",
           "chain = [link for link in chain if link[1] in TERMINAL]\n"
           "    if not chain:\n        return \"wrong_state\"\n"),
    Mutant("revoke: nobody loses a lease", SQL + "people.sql",
           "and lease_expires_at > :now and worker_id", "and lease_expires_at < :now and worker_id"),
    Mutant("revoke: everybody loses theirs", SQL + "people.sql",
           "and lease_expires_at > :now and worker_id in (", "and lease_expires_at > :now and '' not in ("),
    Mutant("revoke: a lapsed lease gets a new date", SQL + "people.sql",
           "and lease_expires_at > :now and worker_id", "and worker_id"),
    Mutant("pause: the queue's settings are dropped", SQL + "people.sql",
           "do update set paused_at = excluded", "do update set preset = excluded.preset, paused_at = excluded"),
    Mutant("pause: new settings resume the queue", SQL + "people.sql",
           "settings = excluded.settings,\n", "settings = excluded.settings, paused_at = null,\n"),
    Mutant("claim: unhandled is ignored on one queue", "drivers/sqlite/leases.py",
           "pick_rows_types(queue=queue, limit=wish.limit, types=types_of(wish), unhandled=wish.unhandled",
           "pick_rows_types(queue=queue, limit=wish.limit, types=types_of(wish), unhandled=False"),
    Mutant("claim: unhandled is ignored on several queues", "drivers/sqlite/leases.py",
           "SQL.pick_types(queues=to_json(queues), each=each, types=types_of(wish), unhandled=wish.unhandled",
           "SQL.pick_types(queues=to_json(queues), each=each, types=types_of(wish), unhandled=False"),
    Mutant("claim: what stands deep in a crowded queue is forgotten", "drivers/sqlite/leases.py",
           "        if deep:\n", "        if deep and not deep:\n"),
    Mutant("pg claim: what stands deep in a crowded queue is forgotten", "drivers/postgres/sql/leases.sql",
           "where :each < :limit group by queue", "where :each > :limit group by queue", ("promises: however_uneven",)),
    Mutant("claim: with types, position before priority", SQL + "leases.sql",
           "<wanted>\n order by priority desc, position, created_at, seq\n limit :limit;\n\n-- name: picked",
           "<wanted>\n order by position, priority desc, created_at, seq\n limit :limit;\n\n-- name: picked"),
    Mutant("waiting types: not only the front is looked at", SQL + "inspect.sql",
           "limit :limit)\n group", "limit 1000 + :limit)\n group"),
    Mutant("waiting types: a queue in the middle is jumped over", SQL + "inspect.sql",
           "> names.queue order by later.queue limit 1)", "> names.queue order by later.queue desc limit 1)"),
    Mutant("transaction: a failing call undoes all of it", "drivers/sqlite/library.py",
           'connection.execute("rollback to windlass")', 'connection.execute("rollback")', ("conformance", "transactions")),
    Mutant("transaction: goes on after it was ended by hand", "drivers/sqlite/transactions.py",
           "if not self._connection.in_transaction():", "if self._connection is None:", ("transactions",)),
    Mutant("transaction: memory does not ask again at the commit", "drivers/memory/transactions.py",
           "            if answer != told:", "            if answer is None:", ("transactions",)),
    Mutant("within: begins as a reader and is overtaken", "drivers/sqlite/transactions.py",
           "callers.execute(lock.sql, lock.params)", 'callers.execute("begin") if not connection.in_transaction else lock',
           ("transactions",)),
    Mutant("within: autocommit is not noticed", "drivers/sqlite/transactions.py",
           "        _check_transaction(connection)\n", "", ("transactions",)),
    Mutant("within: any file will do", "drivers/sqlite/transactions.py",
           "        _check_file(callers, place.path)\n", "", ("transactions",)),
    Mutant("within: text comes as the caller wants it", "drivers/sqlite/library.py",
           "        if factory is str:\n", "        if factory:\n", ("transactions",)),
    Mutant("within: rows come as the caller wants them", "drivers/sqlite/library.py",
           "        cursor.row_factory = None\n", "", ("transactions",)),
    Mutant("lane: a neighbour pays for a mistake", "drivers/sqlite/lane.py",
           "command.error = self._transaction([command])[1]", "command.error = error", ("faults",)),
    Mutant("lane: everybody waits for a locked file in turn", "drivers/sqlite/lane.py",
           "if (culprit is None and not isinstance(error, ConstraintViolated)) or len(commands) == 1:",
           "if error is None or len(commands) == 1:", ("faults",)),
    Mutant("lane: a caller that has gone is served all the same", "drivers/sqlite/lane.py",
           "if not command.gone():\n                    commands",
           "if command.make:\n                    commands", ("faults",)),
    Mutant("lane: who left within the turn of the loop is served", "drivers/sqlite/lane.py",
           "command.dropped = True\n            raise", "raise", ("lane",)),
    Mutant("lane: who writes much lets nobody in", "drivers/sqlite/lane.py",
           "                if breath:\n                    self._breath.take()\n", "", ("breath",)),
    Mutant("lane: a pause that others notice is none", "drivers/sqlite/place.py",
           "if now - self._let_go >= BREATH:", "if self._began == 0:", ("breath",)),
    Mutant("lane: nobody looks who else writes", "drivers/sqlite/breath.py",
           "if version != before:", "if before is None:", ("breath",)),
    Mutant("lane: an event loop waits for another process", "drivers/sqlite/lane.py",
           "self._timed(commands, patience=0)", "self._timed(commands, patience=self._place.busy_s)", ("lane",)),
    Mutant("lane: after a commit on the loop nobody waits for a lock", "drivers/sqlite/lane.py",
           "            self._connection.wait_at_most(patience)\n",
           "            self._connection.wait_at_most(0)\n", ("lane",)),
    Mutant("lane: an event loop waits for a slow disk", "drivers/sqlite/lane.py",
           "if since_boot() - began < QUICK else 0", "if since_boot() - began < QUICK else self._quick", ("lane",)),
    Mutant("lane: an event loop waits for a crowd", "drivers/sqlite/lane.py",
           "if not taken or not _is_light(commands):", "if not taken:", ("lane",)),
    Mutant("lane: a close forgets the turn of a loop", "drivers/sqlite/lane.py",
           "                self._hand_over(commands, loop)\n        with self._turn:",
           "                pass\n        with self._turn:", ("lane",)),
    Mutant("lane: a child commits what its parent was about to", "drivers/sqlite/lane.py",
           "if self._pid != os.getpid():  # forked between", "if not self._pid:  # forked between", ("lane",)),
    Mutant("lane: one mistake is everybody's, when the loop commits", "drivers/sqlite/lane.py",
           "if isinstance(error, StoreBusy) or (error is not None and len(commands) > 1):",
           "if isinstance(error, StoreBusy):", ("lane",)),
    Mutant("lane: the loop copies the WAL", "drivers/sqlite/lane.py",
           "        if self._thread is None:\n            self._housekeeping()\n        elif",
           "        if self._thread:\n            self._housekeeping()\n        elif", ("lane",)),
    Mutant("lane: blocking callers commit one by one", "drivers/sqlite/lane.py",
           "self._take_turn(wait=self._thread is None)", "self._take_turn(wait=True)", ("lane",)),
    Mutant("files: an existing file is opened and closed", "drivers/sqlite/files.py",
           "os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC", "os.O_RDWR | os.O_CREAT | os.O_CLOEXEC", ("faults",)),
    Mutant("lane: a deleted file is written on", "drivers/sqlite/lane.py",
           "            self._place.identity.check()\n", "", ("faults",)),
    Mutant("lane: claimed, but the run row comes in a second transaction", "drivers/sqlite/leases.py",
           "    yield SQL.insert_runs(seqs=seqs, prefix=prefix)\n",
           "    yield Statement('commit', ())\n    yield Statement('begin immediate', ())\n"
           "    yield SQL.insert_runs(seqs=seqs, prefix=prefix)\n", ("faults",)),
    Mutant("worker: acknowledged before the handler ran", "worker/slots.py",
           "            held.cancel = task.cancel\n",
           "            held.cancel = task.cancel\n            finisher.returned(held, None)\n"),
    Mutant("worker: what waits for a slot is not renewed", "worker/keeper.py",
           '(held.why == "lost" or held.done)', '(held.why == "lost" or held.done or held.started_at is None)',
           ("worker",)),
    Mutant("worker: what is finished but not settled is not renewed", "worker/keeper.py",
           '(held.why == "lost" or held.done)', '(held.why == "lost" or held.done or held.ended)',
           ("worker",)),
    Mutant("worker: nothing is renewed", "worker/keeper.py",
           "            if not len(self._holdings):\n", "            if self._holdings:\n"),
    Mutant("worker: a renewal that was passed over counts as one", "worker/keeper.py",
           "if (answer.expires_at or 0) > asked_at + lease - ROUNDING:", "if (answer.expires_at or 0) + ROUNDING:",
           ("worker",)),
    Mutant("worker: a release spends an attempt", "worker/finish.py",
           'if held.why == "cancel" else Released()', 'if held.why == "cancel" else Failed("stopped")'),
    Mutant("worker: a cancelled handler counts as failed", "worker/finish.py",
           'return WasCancelled() if held.why == "cancel"', 'return Failed("cancelled") if held.why == "cancel"'),
    Mutant("worker: no fence", "worker/keeper.py",
           "latest = self._client.now() - 2 * self._lease // 3", "latest = self._client.now() - 2000 * self._lease // 3",
           ("worker",)),
    Mutant("worker: a claim that comes too late is begun", "worker/holdings.py",
           ">= 2 * self._client.settings.silence // 3:", ">= 2000 * self._client.settings.silence // 3:"),
    Mutant("worker: an outcome is dropped when the store cannot be reached", "worker/settler.py",
           "                await self._wait_for_store(len(batch), error, backoff)\n",
           "                await backoff.pause()\n"
           "                return self._answered(batch, [\"not_inflight\" for _ in batch])\n"),
    Mutant("worker: outcomes are left behind at the stop", "worker/worker.py",
           "        if not settling.done():\n            await self._within(self._patience, self._settler.idle(), "
           "or_forced=not self._forced.is_set())\n", "", ("worker",)),
    Mutant("worker: leases are left behind at the stop", "worker/worker.py",
           "            await self._within(self._patience, asyncio.wait({claiming}))\n        self._hand_back()\n",
           "            await self._within(self._patience, asyncio.wait({claiming}))\n", ("worker",)),
    Mutant("worker: told to stop, it claims on", "worker/claimer.py",
           "        self.stopping = True\n        self._changed.set()\n", "        self._changed.set()\n"),
    Mutant("worker: a never-twice job is handed back and loses its turn", "worker/holdings.py",
           'return self.job.retry_mode != "new_job"', "return True", ("worker",)),
    Mutant("worker: one row that somebody holds keeps all outcomes waiting", "worker/settler.py",
           "timeout=LONG)", "timeout=None)", ("rows_held",)),
    Mutant("worker: a few rows that somebody holds keep all outcomes waiting", "worker/settler.py",
           "        self._aside.extendleft(reversed(held))\n",
           "        while held:\n            held = await self._write(held, Backoff(self._client.ids.random))\n"
           "            self._writing -= 1\n", ("rows_held",)),
    Mutant("worker: recovery forgets never-twice", "worker/recovering.py",
           "change = recover(job, ", 'change = recover(replace(job, crash_policy="requeue"), '),
    Mutant("worker: recovery does not say that the lease has lapsed", "worker/recovering.py",
           "change = recover(job, Execution(now, None, child_id, client.ids.random.random()))",
           "change = replace(recover(job, Execution(now, None, child_id, client.ids.random.random())), lapsed=False)"),
    Mutant("worker: recovery decides nothing", "worker/recovering.py",
           "for job in undecided if job.id", "for job in undecided[:0] if job.id"),
    Mutant("worker: a wish to cancel is not heard", "worker/holdings.py",
           '        if self.why is None or why == "lost":\n', '        if why == "cancel":\n            return\n'
           '        if self.why is None or why == "lost":\n'),
    Mutant("fair: it is always the first org's turn", "core/fairness.py",
           "key=lambda share: (self.start(share, taken.get(share, 0)), share)", "key=lambda share: share or str(taken)",
           ("simulator: once_failed",)),
    Mutant("fair: who was idle has saved up turns", "core/fairness.py",
           "base = clock if before is None else max(before.finish, clock)",
           "base = clock if before is None else before.finish", ("simulator: once_failed",)),
    Mutant("limits: a pause of a key stops nothing", "core/limits.py",
           "return limit.paused_at is not None or (limit", "return (limit", ("simulator: once_failed",)),
    Mutant("limits: all queues together may give any number", "drivers/memory/limits.py",
           "rules.room(tables.limits.get(key), now) != 0 for key in", "key for key in", ("simulator: once_failed",)),
    Mutant("limits: there is always a token", "core/limits.py",
           "return tokens if free is None else", "return max(tokens, 1) if free is None else", ("simulator: once_failed",)),
    Mutant("children: a lost lease does not hurry the end", "worker/processes/stopping.py",
           "self._hurried = lost\n", "lost = False\n", ("isolation",)),
    Mutant("children: what one leaves behind goes on", "worker/processes/server.py",
           "kill_group(pid, signal.SIGKILL, alone=False)", "kill_group(pid, 0, alone=False)", ("isolation",)),
    Mutant("children: a death before the beginning is charged to the job", "worker/processes/calling.py",
           "return self._death(gone, cause_of(gone)) if begun else None", "return self._death(gone, cause_of(gone))",
           ("isolation",)),
    Mutant("children: an order is cut in two by a kill", "worker/processes/nursery.py",
           "if not self._lock.locked():", "if self._lock is not None:", ("isolation",)),
    Mutant("children: jobs are claimed ahead of free lanes", "worker/lineup.py",
           "return max(self.size - self._busy - len(self._waiting), 0)", "return self.size", ("isolation",)),
    Mutant("logs: those of jobs that are there are removed as well", "worker/logkeeping.py",
           "job is not None and job not in there", "job is not None", ("isolation",)),
    Mutant("logs: a path that leads elsewhere is followed", "runlogs.py",
           "return found if found.is_relative_to(os.path.normpath(root)) else None", "return found", ("isolation",)),
    Mutant("worker: a slot that skips a lost job does not wake the claimer", "worker/slots.py",
           "            if held.ended:  # its lease was lost while it waited\n                self._on_free()\n",
           "            if held.ended:  # its lease was lost while it waited\n", ("worker",)),
    Mutant("worker: a settlement does not wake the claimer", "worker/worker.py",
           "    def _on_settled(self, count: int) -> None:\n        self._claimer.changed()\n",
           "    def _on_settled(self, count: int) -> None:\n"),
    Mutant("worker: a job that came back runs beside its old self", "worker/claimer.py",
           "            if before is not None and not before.ended:\n                self._lose(before)\n",
           "            assert before is not one\n", ("worker",)),
    Mutant("worker: more is taken ahead than there is room for", "worker/claimer.py",
           "ahead = runner.free + min(prefetch - runner.waiting, half) if runner.waiting <= half else 0",
           "ahead = runner.free + prefetch", ("worker",)),
    Mutant("worker: of many queues no more is claimed at once", "worker/claimer.py",
           "max(LARGEST, min(len(queues), LARGEST_OF_MANY))", "LARGEST", ("worker",)),
    Mutant("worker: what was waited for in vain is waited for again", "worker/claimer.py",
           "hopeless = self._suspects.wait_in_vain()", "hopeless = False", ("suspects: many",)),
    Mutant("suspects: one waits for what does not end for ever", "worker/suspects.py",
           "is_suspect(one.job) and self._times.get(one.job.id, 0) < PATIENCE", "is_suspect(one.job)", ("suspects: many",)),
    Mutant("worker: all that may be held is claimed at once", "worker/claimer.py",
           "half = (prefetch + 1) // 2", "half = prefetch", ("worker",)),
    Mutant("worker: a task is measured for ever", "worker/metering.py",
           "held.task.metered -= 1", "pass", ("usage: held_up_once",)),
    Mutant("space: a file is made that cannot shrink", "drivers/sqlite/space.py",
           "    connection.execute(\"pragma auto_vacuum = incremental\")\n", "", only=("space",)),
    Mutant("space: an old file stays as it is", "drivers/sqlite/space.py",
           "if 0 < pages * size <= REWRITTEN:", "if 0 > pages * size:", only=("space",)),
    Mutant("space: nothing is kept for what is to come", "drivers/sqlite/space.py",
           "many = free - max(KEPT, pages // 10)", "many = free", only=("space",)),
    Mutant("space: the log keeps its size", "drivers/sqlite/store.py",
           "    connection.execute(f\"pragma journal_size_limit = {WAL_KEPT}\")\n", "", only=("space",)),
    Mutant("ids: a forked child repeats its parent's", "ids.py",
           "os.register_at_fork(after_in_child=_fetched.clear)", "", ("ids",)),
]  # fmt: skip


def plant(mutant: Mutant | None, directory: Path) -> None:
    shutil.copytree(ROOT / "src", directory / "src", ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is None:
        return
    path = directory / "src" / "windlass" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.what}: {mutant.file} holds the text {text.count(mutant.old)} times, not once")
    text = text.replace(mutant.old, mutant.new)
    if "Statement(" in mutant.new:
        text = text.replace(
            "from windlass.drivers.statement import Op\n", "from windlass.drivers.statement import Op, Statement\n"
        )
    if "replace(" in mutant.new and mutant.file.startswith("worker/"):
        text = text.replace("import logging\n", "import logging\nfrom msgspec.structs import replace\n", 1)
    path.write_text(text)


def fails(tier: str, directory: Path) -> bool:
    """Whether a tier fails on the code in a directory. After a colon: only those of its tests, where that is quicker."""
    tier, _, chosen = tier.partition(": ")
    tests = [*TIERS[tier][:1], "-k", chosen] if chosen else TIERS[tier]
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--timeout", "120", "--no-header"]
    environment = {
        **os.environ, "PYTHONPATH": str(directory / "src"), "PYTHONDONTWRITEBYTECODE": "1",
        "WINDLASS_MODEL_EXAMPLES": "40",
        "WINDLASS_SIM_SECONDS": "0", "WINDLASS_ALL_ORDERS": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(directory / "hypothesis"),
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", *options, *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=600, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{tier} did not run:\n{done.stdout.decode()[-2000:]}{done.stderr.decode()[-2000:]}")
    return done.returncode == 1


def base(tier: str) -> str:
    return tier.partition(":")[0]


def judge(mutant: Mutant | None, *, first: bool = False, tiers: Sequence[str] = ()) -> dict[str, bool]:
    found: dict[str, bool] = {}
    with tempfile.TemporaryDirectory(prefix="windlass-mutant-") as name:
        plant(mutant, Path(name))
        for tier in mutant.tiers if mutant else tiers:
            found[base(tier)] = fails(tier, Path(name))
            if first and found[base(tier)]:
                break
    return found


def judge_in_time(mutant: Mutant, *, first: bool, until: float | None) -> dict[str, bool] | None:
    """None: there was no time left for it."""
    return None if until is not None and time.monotonic() >= until else judge(mutant, first=first)


def everything() -> list[Mutant]:
    return [*MUTANTS, *(Mutant(*planted) for planted in PLANTED)]


def main(words: list[str]) -> int:
    options = {word for word in words if word.startswith("--")}
    first, within = "--first" in options, next((float(o[10:]) for o in options if o.startswith("--seconds=")), None)
    words = [word for word in words if word not in options]
    if unknown := sorted(o for o in options if o not in ("--first", "--healthy") and not o.startswith("--seconds=")):
        print(f"{' '.join(unknown)} is no option.\n\n{__doc__}")
        return 0 if unknown == ["--help"] else 2
    chosen = [mutant for mutant in everything() if all(word in mutant.what for word in words)]
    if within is not None:
        Random(1).shuffle(chosen)  # the same ones each time: a gate judges the change and not the day
    if not chosen:
        print(f"no planted bug is called {' '.join(words)}")
        return 2
    width = max(len(mutant.what) for mutant in chosen)
    used = [tier for tier in TIERS if any(tier in map(base, mutant.tiers) for mutant in chosen)]
    healthy = {} if "--healthy" in options else judge(None, tiers=used)
    if any(healthy.values()):
        print(f"the healthy code fails already: {healthy}")
        return 1
    print(f"{'planted bug':{width}}  caught or missed by", flush=True)
    missed = tried = 0
    until = None if within is None else time.monotonic() + within
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        for mutant, caught in zip(chosen, pool.map(partial(judge_in_time, first=first, until=until), chosen), strict=True):
            if caught is None:
                continue
            tried += 1
            missed += not any(caught.values())
            judged = ", ".join(f"{'caught' if seen else 'MISSED'} by {tier}" for tier, seen in caught.items())
            print(f"{mutant.what:{width}}  {judged}", flush=True)
    print(f"\n{tried - missed} of {tried} planted bugs caught, of {len(chosen)} that there are")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
