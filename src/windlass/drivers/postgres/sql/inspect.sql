-- Reading. Column order: windlass.types.Job and Run.

-- name: get_jobs
select seq, id, queue, type, org_id, state, ready, priority, position, windlass.micros(created_at),
       windlass.micros(queued_at), windlass.micros(updated_at), windlass.micros(run_at), timeout_ns, attempts, executions,
       skipped, lost, max_attempts, max_lost, lease_token, windlass.micros(lease_expires_at), worker_id,
       windlass.micros(claimed_at), windlass.micros(started_at), windlass.micros(finished_at), windlass.micros(failed_at),
       last_token, last_outcome, dead_kind, windlass.micros(dead_at), dead_reason, retry_mode, crash_policy, on_unknown, history,
       retry_policy, idempotency_scope, idempotency_key, dedupe_key, template_id, template_version, schedule_id,
       windlass.micros(fire_at), group_id, group_seq, waiting_on, after_rule, awaited, parked_on, limit_keys::text, permits::text,
       windlass.micros(aged_at), tags::text, retry_of, manual, superseded_by, windlass.micros(cancel_requested_at), progress, progress_note, headers::text,
       codec, last_error, result, payload
  from windlass.jobs where id = any(:ids::text[]);

-- name: lock_jobs
-- In the order of their numbers.
select seq from windlass.jobs where seq = any(:seqs::bigint[]) order by seq for no key update;

-- name: try_jobs
-- The same without waiting: those that nobody holds.
select seq from windlass.jobs where seq = any(:seqs::bigint[]) order by seq for no key update skip locked;

-- name: runs_unkept
-- Whether it runs without a row of its run.
select id from windlass.jobs where id = :id and state = 'running' and history is not null;

-- name: get_runs
select run_id, jobs.id, attempt_no, runs.worker_id, runs.org_id, runs.queue, runs.type, runs.template_id, runs.template_version,
       windlass.micros(runs.claimed_at), windlass.micros(runs.started_at), windlass.micros(runs.finished_at), status, wait_us,
       cpu_us, peak_rss, exit_code, log_path, artifacts::text, coalesce(params, payload), error, traceback
  from windlass.runs join windlass.jobs on jobs.seq = job_seq where jobs.id = :id and attempt_no < :before
 order by attempt_no desc limit :limit;

-- name: count_jobs
-- core/eligibility.py: label_of. One pass over each partial index; finished successes are not touched.
select queue, 'queued', count(*) from windlass.jobs where state = 'queued' and ready group by 1
union all
select queue, case when run_at <= windlass.at(:now) then 'queued' else 'scheduled' end, count(*) from windlass.jobs
 where state = 'queued' and not ready and waiting_on = 0 and parked_on is null group by 1, 2
union all
select queue, 'parked', count(*) from windlass.jobs
 where state = 'queued' and parked_on is not null and waiting_on = 0 group by 1
union all
select queue, 'blocked', count(*) from windlass.jobs where state = 'queued' and waiting_on > 0 group by 1
union all
select queue, case when started_at is null then 'claimed' else 'running' end, count(*)
  from windlass.jobs where state = 'running' group by 1, 2
union all
select queue, 'dead', count(*) from windlass.jobs where state = 'dead' and dead_kind <> 'superseded' group by 1;

-- name: ready_queues
-- The queues that have ready jobs, found by jumping through the index: the cost does not grow with the number of jobs.
with recursive names (queue) as (
  (select queue from windlass.jobs where state = 'queued' and ready order by queue limit 1)
  union all
  select (select later.queue from windlass.jobs as later
           where later.state = 'queued' and later.ready and later.queue > names.queue order by later.queue limit 1)
    from names where names.queue is not null
)
select queue from names where queue is not null;

-- name: pulse
-- Who may only read may not know the first.
select case when has_sequence_privilege('windlass.jobs_seq', 'usage')
         then pg_sequence_last_value('windlass.jobs_seq'::regclass) end,
       exists (select from windlass.jobs where state = 'queued' and ready);

-- name: waiting_types
select type, on_unknown, count(*) from (
  select type, on_unknown from windlass.jobs where queue = :queue and state = 'queued' and ready
   order by priority desc, position, created_at, seq
   limit :limit) as head
 group by 1, 2;

-- name: all_queues
select name, positions, preset, settings, windlass.micros(paused_at), fairness, age_after, age_to from windlass.queues order by name;

-- name: all_groups
select group_id, name, mode, on_failure, total, remaining, succeeded, failed, cancelled, windlass.micros(created_at),
       windlass.micros(finished_at)
  from windlass.groups order by group_id;

-- name: all_limits
select key, max_used, used, per_second, burst, tokens, windlass.micros(refilled_at), windlass.micros(wake_at), weight,
       windlass.micros(paused_at), declared
  from windlass.limits order by key;

-- name: jobs_ahead
-- core/eligibility.py: dispatch_order. Counted along the index that a claim walks.
select count(*) from (
  select from windlass.jobs
   where queue = :queue and state = 'queued' and ready and priority >= :priority
     and (priority > :priority or (position, created_at, seq) < (:position, windlass.at(:created_at), :seq))
   limit :most) as ahead;

-- name: number_range
select (select seq from windlass.jobs order by seq limit 1), (select seq from windlass.jobs order by seq desc limit 1);

-- name: created_about
-- When the job with this number was created, or the one before it, or else the first.
select windlass.micros(coalesce((select created_at from windlass.jobs where seq <= :seq order by seq desc limit 1),
                                (select created_at from windlass.jobs order by seq limit 1)));

-- name: seen_lately
-- What the newest jobs are called, each kind once.
select distinct queue, type, org_id, worker_id, tags::text from (
  select queue, type, org_id, worker_id, tags from windlass.jobs order by seq desc limit :jobs) as newest;

-- name: running_now
-- Column order: windlass.types.RunningCount.
select worker_id, queue, count(*) from windlass.jobs where state = 'running' group by worker_id, queue;

-- name: ended_jobs
select count(*) from (
  select 1 from windlass.jobs where state = :state and finished_at is not null limit :most) as ended;
