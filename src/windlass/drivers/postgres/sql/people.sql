-- What people and services ask for. core/rows.py: cancelled, cancel_requested, replayed, brought_forward, revoked.

-- name: cancel_queued
update windlass.jobs
   set state = 'cancelled', parked_on = null, finished_at = windlass.at(:now), last_error = :reason, updated_at = windlass.touched(updated_at, :now)
 where id = :id and state = 'queued';

-- name: cancel_running
update windlass.jobs set cancel_requested_at = windlass.at(:now), last_error = :reason, updated_at = windlass.touched(updated_at, :now)
 where id = :id and state = 'running' and cancel_requested_at is null;

-- name: replay
update windlass.jobs
   set state = 'queued', ready = true, run_at = null, attempts = case when :reset then 0 else attempts end,
       skipped = case when :reset then executions else skipped end, lost = case when :reset then 0 else lost end,
       finished_at = null, dead_kind = null, dead_at = null, dead_reason = null, worker_id = null,
       cancel_requested_at = null,
       share = (select coalesce('=' || jobs.org_id, '') from windlass.queues where fairness = 'fair' and name = jobs.queue),
       updated_at = windlass.touched(updated_at, :now)
 where id = :id and state = 'dead' and dead_kind <> 'superseded';

-- name: supersede
update windlass.jobs set dead_kind = 'superseded', superseded_by = :child_id, updated_at = windlass.touched(updated_at, :now)
 where id = :id and state = 'dead' and dead_kind <> 'superseded';

-- name: run_now
update windlass.jobs set run_at = null, ready = (waiting_on = 0 and parked_on is null), updated_at = windlass.touched(updated_at, :now)
 where id = :id and state = 'queued';

-- name: begin_replay
savepoint replayed;

-- name: undo_replay
-- Somebody took the key between the look and the write.
rollback to savepoint replayed;

-- name: end_replay
release savepoint replayed;

-- name: links
-- All links of a retry chain: what a job retries, and what took over from it.
with recursive chain (seq, state, awaited, retry_of, superseded_by) as (
  select seq, state, awaited, retry_of, superseded_by from windlass.jobs where id = :id
  union
  select jobs.seq, jobs.state, jobs.awaited, jobs.retry_of, jobs.superseded_by
    from chain join windlass.jobs on jobs.id in (chain.retry_of, chain.superseded_by)
)
select seq, state, awaited from chain;

-- name: leased_by
select seq from windlass.jobs where state = 'running' and lease_expires_at > windlass.at(:now) and worker_id = any(:workers::text[]);

-- name: hold_queues
-- Whatever their positions: for those who change queues.
select name from windlass.queues where name = any(:names::text[]) order by name for no key update;

-- name: revoke
-- All running jobs are looked at: they are as few as there are busy workers, and a worker dies seldom. Those of several at
-- once, so that they are locked in the order of their numbers.
update windlass.jobs set lease_expires_at = windlass.at(:now), updated_at = windlass.touched(updated_at, :now)
 where seq = any(array(
   select seq from windlass.jobs where state = 'running' and lease_expires_at > windlass.at(:now) and worker_id = any(:workers::text[])
    order by seq for no key update))
returning seq;

-- name: put_queue
insert into windlass.queues (name, positions, preset, settings, fairness, age_after, age_to, created_at, updated_at)
values (:name, :positions, :preset, :settings, :order, :age_after, :age_to, windlass.at(:now), windlass.at(:now))
on conflict (name) do update set positions = excluded.positions, preset = excluded.preset, settings = excluded.settings,
  fairness = excluded.fairness, age_after = excluded.age_after, age_to = excluded.age_to,
  updated_at = windlass.touched(queues.updated_at, :now);

-- name: order_of
select fairness, positions from windlass.queues where name = :name;

-- name: set_paused
-- A queue without a row is not paused, and resuming it makes none.
insert into windlass.queues (name, positions, paused_at, created_at, updated_at)
select :queue, 'tail', case when :paused then windlass.at(:now) end, windlass.at(:now), windlass.at(:now)
 where :paused or exists (select from windlass.queues where name = :queue)
on conflict (name) do update set paused_at = excluded.paused_at, updated_at = windlass.touched(queues.updated_at, :now)
 where (queues.paused_at is null) <> (excluded.paused_at is null)
returning name;
