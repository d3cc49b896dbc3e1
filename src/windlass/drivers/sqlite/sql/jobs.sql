-- Enqueueing: rows, keys and places. core/rows.py: enqueued, child_of, replaced.

-- name: take_lock
-- Changes nothing, but takes the write lock, as the first statement of a transaction that began as a reader: one that
-- read first and meets another's commit is refused at once, however long it was willing to wait.
delete from jobs where 0;

-- name: last_seq
-- The newest row number, and whether any queue has dense positions or takes turns.
select coalesce((select seq from sqlite_sequence where name = 'jobs'), 0),
       exists (select 1 from queues where positions = 'dense' or fairness = 'fair');

-- name: queue_rules
select name, positions, fairness from queues where name in (select value from json_each(:names));

-- name: last_position
-- core/positions.py: dense
-- The largest of each of two indexes: a plain max() would read every job that ever was.
select max(position) from (
  select * from (select position from jobs indexed by jobs_ready
                  where queue = :queue and priority = :priority and state = 'queued' and ready = 1
                  order by position desc limit 1)
  union all
  select * from (select position from jobs indexed by jobs_unready
                  where queue = :queue and priority = :priority and state = 'queued' and ready = 0
                  order by position desc limit 1));

-- name: insert_job
-- The parameters after :now are the fields of NewJob in their order; drivers/sqlite/jobs.py relies on it.
insert into jobs (
  seq, ready, position, created_at, queued_at, updated_at, state, executions, skipped, lost, waiting_on, after_rule, awaited, manual,
  last_error, id, type, queue, org_id, priority, run_at, timeout_ns, attempts, max_attempts, max_lost, retry_mode,
  crash_policy, on_unknown, retry_policy, idempotency_scope, idempotency_key, dedupe_key, template_id, template_version,
  schedule_id, fire_at, group_id, group_seq, limit_keys, tags, headers, codec, payload, share, history)
values (
  :seq, :ready, :position, :now, :now, :now, 'queued', 0, 0, 0, 0, 'cancel', 0, 0,
  '', :id, :type, :queue, :org_id, :priority, :run_at, :timeout_ns, :attempts, :max_attempts, :max_lost, :retry_mode,
  :crash_policy, :on_unknown, :retry_policy, :idempotency_scope, :idempotency_key, :dedupe_key, :template_id, :template_version,
  :schedule_id, :fire_at, :group_id, :group_seq, :limit_keys, :tags, :headers, :codec, :payload, :share, :history);

-- name: insert_child
-- The next link of a retry chain, copied from its parent in the store. core/rows.py: child_of
insert into jobs (
  seq, id, queue, type, org_id, state, ready, priority, position, created_at, queued_at, updated_at, run_at, timeout_ns,
  attempts, executions, skipped, lost, max_attempts, max_lost, retry_mode, crash_policy, on_unknown, retry_policy,
  dedupe_key, template_id, template_version, schedule_id, fire_at, group_id, group_seq,
  waiting_on, after_rule, awaited, limit_keys, share, tags, retry_of, manual, headers, codec, history, last_error, payload)
select
  :seq, :id, queue, type, org_id, 'queued', :ready, priority, :position, :now, :now, :now, :run_at, timeout_ns,
  :attempts, 0, 0, 0, max_attempts, max_lost, retry_mode, crash_policy, on_unknown, retry_policy,
  dedupe_key, template_id, template_version, schedule_id, fire_at, group_id, group_seq,
  0, after_rule, 0, limit_keys,
  (select coalesce('=' || jobs.org_id, '') from queues where fairness = 'fair' and name = jobs.queue), tags, id, :manual, headers, codec, history, '', payload
from jobs where seq = :parent_seq;

-- name: ids_in_use
-- Among the jobs that were there before.
select id from jobs where id in (select value from json_each(:ids)) and seq <= :last_seq;

-- name: key_holder
select job_id from idempotency_keys where scope = :scope and key = :key and (expires_at is null or expires_at > :now);

-- name: take_key
insert into idempotency_keys (scope, key, job_id, expires_at) values (:scope, :key, :job_id, :expires_at)
on conflict (scope, key) do update set job_id = excluded.job_id, expires_at = excluded.expires_at;

-- name: dedupe_holder
select id from jobs where dedupe_key = :key and dedupe_key is not null and state in ('queued', 'running');

-- name: fire_holder
select id from jobs where schedule_id = :schedule_id and fire_at = :fire_at and schedule_id is not null
   and fire_at is not null and retry_of is null;

-- name: chain_head
-- Follow superseded_by to the end; a job that was pruned stands for itself. A chain that somebody tied to itself by SQL has
-- none, and is walked once: hence `union`, here and wherever chains are walked.
with recursive chain (id, next) as (
  select id, superseded_by from jobs where id = :id
  union
  select jobs.id, jobs.superseded_by from jobs join chain on jobs.id = chain.next
)
select coalesce(next, id) from chain where not exists (select 1 from jobs where jobs.id = chain.next);

-- name: touch
-- core/uniqueness.py: may_touch
update jobs set updated_at = max(:now, updated_at + 1) where id = :id and state <> 'running';

-- name: replace_job
-- core/uniqueness.py: may_replace
update jobs
   set payload = :payload, codec = :codec, headers = :headers, run_at = :run_at,
       parked_on = null, ready = (:due and waiting_on = 0), updated_at = max(:now, updated_at + 1)
 where id = :id and state = 'queued' and executions = 0
returning limit_keys, type, org_id, tags;
