-- What people and services ask for. core/rows.py: cancelled, cancel_requested, replayed, brought_forward, revoked.

-- name: cancel_queued
update jobs
   set state = 'cancelled', parked_on = null, finished_at = :now, last_error = :reason, updated_at = max(:now, updated_at + 1)
 where id = :id and state = 'queued';

-- name: cancel_running
update jobs set cancel_requested_at = :now, last_error = :reason, updated_at = max(:now, updated_at + 1)
 where id = :id and state = 'running' and cancel_requested_at is null;

-- name: replay
update jobs
   set state = 'queued', ready = 1, run_at = null, attempts = case when :reset then 0 else attempts end,
       skipped = case when :reset then executions else skipped end, lost = case when :reset then 0 else lost end,
       finished_at = null, dead_kind = null, dead_at = null, dead_reason = null, worker_id = null,
       cancel_requested_at = null,
       share = (select coalesce('=' || jobs.org_id, '') from queues where fairness = 'fair' and name = jobs.queue),
       updated_at = max(:now, updated_at + 1)
 where id = :id and state = 'dead' and dead_kind <> 'superseded';

-- name: supersede
update jobs set dead_kind = 'superseded', superseded_by = :child_id, updated_at = max(:now, updated_at + 1)
 where id = :id and state = 'dead' and dead_kind <> 'superseded';

-- name: run_now
update jobs set run_at = null, ready = (waiting_on = 0 and parked_on is null), updated_at = max(:now, updated_at + 1)
 where id = :id and state = 'queued';

-- name: begin_replay
savepoint replayed;

-- name: undo_replay
-- Somebody has taken the key.
rollback to savepoint replayed;

-- name: end_replay
release savepoint replayed;

-- name: links
-- All links of a retry chain: what a job retries, and what took over from it.
with recursive chain (seq, state, awaited, retry_of, superseded_by) as (
  select seq, state, awaited, retry_of, superseded_by from jobs where id = :id
  union
  select jobs.seq, jobs.state, jobs.awaited, jobs.retry_of, jobs.superseded_by
    from chain join jobs on jobs.id in (chain.retry_of, chain.superseded_by)
)
select seq, state, awaited from chain;

-- name: revoke
-- All running jobs are looked at: they are as few as there are busy workers, and a worker dies seldom.
update jobs set lease_expires_at = :now, updated_at = max(:now, updated_at + 1)
 where seq in (select seq from jobs indexed by jobs_leased
                where state = 'running' and lease_expires_at > :now and worker_id in (select value from json_each(:workers)))
returning seq;

-- name: put_queue
insert into queues (name, positions, preset, settings, fairness, age_after, age_to, created_at, updated_at)
values (:name, :positions, :preset, :settings, :order, :age_after, :age_to, :now, :now)
on conflict (name) do update set positions = excluded.positions, preset = excluded.preset, settings = excluded.settings,
  fairness = excluded.fairness, age_after = excluded.age_after, age_to = excluded.age_to,
  updated_at = max(excluded.updated_at, queues.updated_at + 1);

-- name: order_of
select fairness, positions from queues where name = :name;

-- name: set_paused
-- A queue without a row is not paused, and resuming it makes none.
insert into queues (name, positions, paused_at, created_at, updated_at)
select :queue, 'tail', case when :paused then :now end, :now, :now
 where :paused or exists (select 1 from queues where name = :queue)
on conflict (name) do update set paused_at = excluded.paused_at, updated_at = max(excluded.updated_at, queues.updated_at + 1)
 where (queues.paused_at is null) <> (excluded.paused_at is null)
returning name;
