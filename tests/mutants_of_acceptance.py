"""The bugs that mutants.py plants in what the source systems asked for, and the tier that is to catch each."""

from __future__ import annotations

from mutants_of_postgres import Planted

ACCEPTANCE: list[Planted] = [
    ("preset: the Orchestrator's first execution counts as a retry", "presets.py",
     'first_is_free=True,  # "retry', 'first_is_free=False,  # "retry', ("accepted: orchestrator",)),
    ("preset: the Scheduler's chain is one link short", "presets.py",
     "first_is_free=True,  # its drawing", "first_is_free=False,  # its drawing", ("accepted: scheduler",)),
    ("preset: Harmonyk compares attempts after they are counted", "presets.py",
     "first_is_free=True,  # it compares", "first_is_free=False,  # it compares", ("accepted: harmonyk",)),
    ("preset: a TaskHarbor key is of its type", "presets.py",
     '    idempotency_scope="queue",\n', "", ("accepted: taskharbor",)),
    ("preset: the Orchestrator's upsert touches nothing", "presets.py",
     'on_duplicate="touch"', 'on_duplicate="ignore"', ("accepted: orchestrator",)),
    ("preset: the Scheduler runs a job id again", "presets.py",
     'retry_mode="new_job"', 'retry_mode="same_job"', ("accepted: scheduler",)),
    ("preset: the Scheduler's positions are not dense", "presets.py",
     'positions="dense"', 'positions="tail"', ("accepted: scheduler",)),
    ("words: no handler is a dead letter", "words.py",
     '("orchestrator", "rejected"): "failed"', '("orchestrator", "rejected"): "dead_letter"', ("accepted: orchestrator",)),
    ("words: a finished job of the Scheduler is not RUNNING", "words.py",
     '"running": "RUNNING", "succeeded": "RUNNING"', '"running": "RUNNING", "succeeded": "COMPLETED"',
     ("accepted: scheduler",)),
    ("events: those of another organisation are told too", "core/events.py",
     "event in hook.events and hook.org_id in (None, org_id)", "event in hook.events", ("conformance",)),
    ("events: a webhook that is switched off is told", "core/events.py",
     "hook.enabled and event in hook.events and hook.org_id", "event in hook.events and hook.org_id", ("conformance",)),
    ("events: what is taken back is not announced", "drivers/sqlite/leases.py",
     "        yield from announce(SQL, rows, now)\n        count", "        count", ("conformance",)),
    ("events: pg what is taken back is not announced", "drivers/postgres/leases.py",
     "        if expired:\n            yield from announce(SQL, expired, now)\n", "", ("promises: loss_is",)),
    ("events: what core decided is not announced", "worker/recovering.py",
     "return announced(webhooks, job, change)", "return change", ("recovery",)),
    ("schedules: the next time and the jobs are two steps", "coordinator/firing.py",
     "        [answer] = await client.driver.alter([change], now=now)\n    except",
     "        from msgspec.structs import replace\n"
     "        [answer] = await client.driver.alter([replace(change, jobs=())], now=now)\n"
     "        await client.driver.enqueue(change.jobs, now=now)\n    except", ("deaths: sqlite",)),
    ("repair: who waited for a permit waits on", "drivers/ops/limits.py",
     "        yield from self.let_through(wrong, now)\n", "", ("repair",)),
    ("repair: every lease counts as lapsed", "core/recovery.py",
     "lapsed = job.lease_expires_at <= run.at", "lapsed = True", ("repair",)),
    ("repair: finished work is done again", "core/recovery.py", 'case "completed":', 'case "finished":', ("repair",)),
    ("repair: a missing run is not given", "drivers/ops/repair.py",
     "        yield from db.keep_runs(dict.fromkeys(begun, run_prefix(GIVEN, now)))\n", "        pass\n", ("repair",)),
    ("repair: orphans stay", "drivers/ops/repair.py",
     "gone = yield db.sql.delete_orphans(limit=duty.limit)", "gone: list[Row] = []", ("repair",)),
    ("repair: nobody hears of it", "admin/repair.py",
     "return announced(webhooks, claimed, change, recovers=True)", "return change", ("repair",)),
]  # fmt: skip
