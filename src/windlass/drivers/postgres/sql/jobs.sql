-- Enqueueing: rows, keys and places. core/rows.py: enqueued, child_of, replaced.

-- name: insert_jobs
-- Any number of jobs in one statement. A column that is the same for all of them comes once (`:queue`), one that differs as
-- an array (`:queue_each`); the other of the two is null. So with the moment, for calls that go together. Numbers are drawn in the order given. Nothing is inserted when a
-- queue with dense positions is among them, unless their positions are given.
with each as not materialized (
  select * from unnest(
                :ids::text[], :payloads::bytea[], :positions::bigint[], :type_each::text[], :queue_each::text[],
                :org_id_each::text[], :priority_each::bigint[], :run_at_each::bigint[], :timeout_ns_each::bigint[],
                :attempts_each::bigint[], :max_attempts_each::bigint[], :max_lost_each::bigint[],
                :retry_mode_each::text[], :crash_policy_each::text[], :on_unknown_each::text[],
                :retry_policy_each::text[], :idempotency_scope_each::text[], :idempotency_key_each::text[],
                :dedupe_key_each::text[], :template_id_each::text[], :template_version_each::bigint[],
                :schedule_id_each::text[], :fire_at_each::bigint[], :group_id_each::text[], :group_seq_each::bigint[],
                :limit_keys_each::text[], :tags_each::text[], :headers_each::text[], :codec_each::text[], :now_each::bigint[],
                :history_each::text[]
                ) with ordinality as each (
                          id, payload, position, type, queue, org_id, priority, run_at, timeout_ns, attempts,
                          max_attempts, max_lost, retry_mode, crash_policy, on_unknown, retry_policy, idempotency_scope,
                          idempotency_key, dedupe_key, template_id, template_version, schedule_id, fire_at, group_id,
                          group_seq, limit_keys, tags, headers, codec, now, history, place)
   where :placed or not exists (select from windlass.queues where positions = 'dense' and name = any(:names::text[]))
), numbered as not materialized (
  select nextval('windlass.jobs_seq') as seq, * from each order by place
), fair as materialized (
  select array_agg(name) as names from windlass.queues where fairness = 'fair' and name = any(:names::text[])
)
insert into windlass.jobs (
  seq, ready, position, created_at, queued_at, updated_at, state, executions, skipped, lost, waiting_on, after_rule, awaited, manual,
  last_error, id, payload,
  type, queue, org_id, priority, run_at, timeout_ns, attempts, max_attempts, max_lost, retry_mode, crash_policy,
  on_unknown, retry_policy, idempotency_scope, idempotency_key, dedupe_key, template_id, template_version, schedule_id,
  fire_at, group_id, group_seq, limit_keys, tags, headers, codec, history, share)
select seq, coalesce(coalesce(each.run_at, :run_at::bigint) <= coalesce(each.now, :now), true),
       coalesce(each.position, 100 * seq), windlass.at(coalesce(each.now, :now)), windlass.at(coalesce(each.now, :now)),
       windlass.at(coalesce(each.now, :now)), 'queued', 0, 0, 0, 0, 'cancel', false, false, '', id, payload,
       coalesce(each.type, :type::text), coalesce(each.queue, :queue::text), coalesce(each.org_id, :org_id::text),
       coalesce(each.priority, :priority::bigint), windlass.at(coalesce(each.run_at, :run_at::bigint)),
       coalesce(each.timeout_ns, :timeout_ns::bigint), coalesce(each.attempts, :attempts::bigint),
       coalesce(each.max_attempts, :max_attempts::bigint), coalesce(each.max_lost, :max_lost::bigint),
       coalesce(each.retry_mode, :retry_mode::text), coalesce(each.crash_policy, :crash_policy::text),
       coalesce(each.on_unknown, :on_unknown::text), coalesce(each.retry_policy, :retry_policy::text),
       coalesce(each.idempotency_scope, :idempotency_scope::text), coalesce(each.idempotency_key, :idempotency_key::text),
       coalesce(each.dedupe_key, :dedupe_key::text), coalesce(each.template_id, :template_id::text),
       coalesce(each.template_version, :template_version::bigint), coalesce(each.schedule_id, :schedule_id::text),
       windlass.at(coalesce(each.fire_at, :fire_at::bigint)), coalesce(each.group_id, :group_id::text),
       coalesce(each.group_seq, :group_seq::bigint), coalesce(each.limit_keys, :limit_keys::text)::jsonb,
       coalesce(each.tags, :tags::text)::jsonb, coalesce(each.headers, :headers::text)::jsonb,
       coalesce(each.codec, :codec::text), coalesce(each.history, :history::text),
       case when coalesce(each.queue, :queue::text) = any(fair.names) then coalesce('=' || coalesce(each.org_id, :org_id::text), '') end
  from numbered as each cross join fair
returning 1;

-- name: insert_alike
-- The same for jobs that differ in nothing but id and payload, as most batches do: what they share is worked out once, and
-- their number is all that is answered.
with each as not materialized (
  select * from unnest(:ids::text[], :payloads::bytea[]) with ordinality as each (id, payload, place)
   where not exists (select from windlass.queues where positions = 'dense' and name = :queue::text)
), numbered as not materialized (
  select nextval('windlass.jobs_seq') as seq, * from each order by place
), shared as materialized (
  select windlass.at(:now) as now, windlass.at(:run_at::bigint) as run_at, windlass.at(:fire_at::bigint) as fire_at,
         coalesce(:run_at::bigint <= :now, true) as ready, :limit_keys::jsonb as limit_keys, :tags::jsonb as tags,
         :headers::jsonb as headers,
         (select coalesce('=' || :org_id::text, '') from windlass.queues where fairness = 'fair' and name = :queue::text) as share
), stored as (
  insert into windlass.jobs (
    seq, ready, position, created_at, queued_at, updated_at, state, executions, skipped, lost, waiting_on, after_rule, awaited,
    manual, last_error, id, payload, type, queue, org_id, priority, run_at, timeout_ns, attempts, max_attempts, max_lost,
    retry_mode, crash_policy, on_unknown, retry_policy, idempotency_scope, idempotency_key, dedupe_key, template_id,
    template_version, schedule_id, fire_at, group_id, group_seq, limit_keys, tags, headers, codec, history, share)
  select seq, shared.ready, 100 * seq, shared.now, shared.now, shared.now, 'queued', 0, 0, 0, 0, 'cancel', false,
         false, '', id, payload, :type::text, :queue::text, :org_id, :priority, shared.run_at, :timeout_ns::bigint, :attempts::bigint, :max_attempts::bigint, :max_lost::bigint,
         :retry_mode::text, :crash_policy::text, :on_unknown::text, :retry_policy, :idempotency_scope, :idempotency_key, :dedupe_key, :template_id,
         :template_version::bigint, :schedule_id, shared.fire_at, :group_id, :group_seq::bigint, shared.limit_keys, shared.tags,
         shared.headers, :codec, :history, shared.share
    from numbered cross join shared
  returning 1
)
select count(*) from stored;

-- name: insert_job
-- The same for one job, which needs no arrays: a third less work than a batch of one.
with number as materialized (select nextval('windlass.jobs_seq') as seq)
insert into windlass.jobs (
  seq, ready, position, created_at, queued_at, updated_at, state, executions, skipped, lost, waiting_on, after_rule, awaited, manual,
  last_error, id, payload, type, queue, org_id, priority, run_at, timeout_ns, attempts, max_attempts, max_lost, retry_mode,
  crash_policy, on_unknown, retry_policy, idempotency_scope, idempotency_key, dedupe_key, template_id, template_version,
  schedule_id, fire_at, group_id, group_seq, limit_keys, tags, headers, codec, history, share)
select seq, coalesce(:run_at::bigint <= :now, true), 100 * seq, windlass.at(:now), windlass.at(:now), windlass.at(:now), 'queued',
       0, 0, 0, 0, 'cancel', false, false, '', :id::text, :payload::bytea, :type::text, :queue::text, :org_id, :priority, windlass.at(:run_at), :timeout_ns::bigint,
       :attempts::bigint, :max_attempts::bigint, :max_lost::bigint, :retry_mode::text, :crash_policy::text, :on_unknown::text, :retry_policy, :idempotency_scope,
       :idempotency_key, :dedupe_key, :template_id, :template_version::bigint, :schedule_id, windlass.at(:fire_at::bigint),
       :group_id, :group_seq::bigint, :limit_keys::jsonb, :tags::jsonb, :headers::jsonb, :codec, :history,
       (select coalesce('=' || :org_id::text, '') from windlass.queues where fairness = 'fair' and name = :queue::text)
  from number
 where not exists (select from windlass.queues where positions = 'dense' and name = :queue::text)
returning 1;

-- name: lock_queues
-- Queues whose positions are dense: the largest one is read under this lock.
select name from windlass.queues where positions = 'dense' and name = any(:names::text[]) order by name for no key update;

-- name: last_position
-- core/positions.py: dense
select windlass.last_position(:queue, :priority::integer);

-- name: insert_child
-- The next link of a retry chain, copied from its parent in the store. core/rows.py: child_of
with number as materialized (select nextval('windlass.jobs_seq') as seq)
insert into windlass.jobs (
  seq, id, queue, type, org_id, state, ready, priority, position, created_at, queued_at, updated_at, run_at, timeout_ns,
  attempts, executions, skipped, lost, max_attempts, max_lost, retry_mode, crash_policy, on_unknown, retry_policy,
  dedupe_key, template_id, template_version, schedule_id, fire_at, group_id, group_seq,
  waiting_on, after_rule, awaited, limit_keys, share, tags, retry_of, manual, headers, codec, history, last_error, payload)
select
  number.seq, :id::text, queue, type, org_id, 'queued', :ready, priority, coalesce(:position::bigint, 100 * number.seq), windlass.at(:now),
  windlass.at(:now), windlass.at(:now), windlass.at(:run_at), timeout_ns,
  :attempts::bigint, 0, 0, 0, max_attempts, max_lost, retry_mode, crash_policy, on_unknown, retry_policy,
  dedupe_key, template_id, template_version, schedule_id, fire_at, group_id, group_seq,
  0, after_rule, false, limit_keys,
  (select coalesce('=' || jobs.org_id, '') from windlass.queues where fairness = 'fair' and name = jobs.queue), tags, id, :manual, headers, codec, history, '', payload
from windlass.jobs, number where jobs.seq = :parent_seq;

-- name: ids_in_use
select id from windlass.jobs where id = any(:ids::text[]);

-- name: enqueued_before
-- What an enqueue stored whose reply was lost: the same id, made at the same instant.
select id from windlass.jobs where id = any(:ids::text[]) and created_at = windlass.at(:now);

-- name: key_holders
select asked.scope, asked.key, job_id
  from unnest(:scopes::text[], :keys::text[]) as asked (scope, key) cross join lateral (
    select job_id from windlass.idempotency_keys as held
     where held.scope = asked.scope and held.key = asked.key and (expires_at is null or expires_at > windlass.at(:now))) as holder;

-- name: take_keys
-- Those that are free, or whose time is over, in the order of keys; one that another is taking is waited for. What is not
-- answered is somebody else's: a second statement sees whose.
insert into windlass.idempotency_keys as held (scope, key, job_id, expires_at)
select scope, key, job_id, windlass.at(expires_at)
  from unnest(:scopes::text[], :keys::text[], :job_ids::text[], :expires_at::bigint[]) as asked (scope, key, job_id, expires_at)
 order by scope, key
on conflict (scope, key) do update set job_id = excluded.job_id, expires_at = excluded.expires_at
 where held.expires_at <= windlass.at(:now)
returning scope, key;

-- name: give_key
-- A key that was just taken, to the job that holds another of the same caller's keys.
update windlass.idempotency_keys set job_id = :job_id where scope = :scope and key = :key;

-- name: dedupe_keys_held
select dedupe_key from windlass.jobs
 where dedupe_key = any(:keys::text[]) and dedupe_key is not null and state in ('queued', 'running');

-- name: dedupe_holder
select id from windlass.jobs where dedupe_key = :key and dedupe_key is not null and state in ('queued', 'running');

-- name: fire_holder
select id from windlass.jobs where schedule_id = :schedule_id and fire_at = windlass.at(:fire_at) and schedule_id is not null
   and fire_at is not null and retry_of is null;

-- name: chain_head
-- Follow superseded_by to the end; a job that was pruned stands for itself. A chain that somebody tied to itself by SQL has
-- none, and is walked once: hence `union`, here and wherever chains are walked.
with recursive chain (id, next) as (
  select id, superseded_by from windlass.jobs where id = :id
  union
  select jobs.id, jobs.superseded_by from windlass.jobs join chain on jobs.id = chain.next
)
select coalesce(next, id) from chain where (select true from windlass.jobs where jobs.id = chain.next limit 1) is null;

-- name: replaceable
-- core/uniqueness.py: may_replace, without a lock
select id, limit_keys::text, type, org_id, tags::text from windlass.jobs where id = any(:ids::text[]) and state = 'queued' and executions = 0;

-- name: lock_holders
-- In the order of their numbers. core/uniqueness.py: may_touch; who is being claimed is waited for, and then left alone.
select id from windlass.jobs where id = any(:ids::text[]) and state <> 'running' order by seq for no key update;

-- name: touch
update windlass.jobs set updated_at = windlass.touched(updated_at, :now) where id = :id and state <> 'running';

-- name: replace_job
-- core/uniqueness.py: may_replace
update windlass.jobs
   set payload = :payload, codec = :codec, headers = :headers::text::jsonb, run_at = windlass.at(:run_at),
       parked_on = null, ready = (:due and waiting_on = 0),
       updated_at = windlass.touched(updated_at, :now)
 where id = :id and state = 'queued' and executions = 0
returning limit_keys::text, type, org_id, tags::text;
