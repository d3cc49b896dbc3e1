-- Reading. Column order: windlass.types.Job and Run.

-- name: get_jobs
select seq, id, queue, type, org_id, state, ready, priority, position, created_at, queued_at, updated_at, run_at, timeout_ns,
       attempts, executions, skipped, lost, max_attempts, max_lost, lease_token, lease_expires_at, worker_id, claimed_at,
       started_at, finished_at, failed_at, last_token, last_outcome, dead_kind, dead_at, dead_reason, retry_mode,
       crash_policy, on_unknown, history, retry_policy, idempotency_scope, idempotency_key, dedupe_key, template_id,
       template_version, schedule_id, fire_at, group_id, group_seq, waiting_on, after_rule, awaited, parked_on, limit_keys, permits, aged_at,
       tags, retry_of, manual, superseded_by, cancel_requested_at, progress, progress_note, headers, codec, last_error, result,
       payload
  from jobs where id in (select value from json_each(:ids));

-- name: runs_unkept
-- Whether it runs without a row of its run.
select id from jobs where id = :id and state = 'running' and history is not null;

-- name: get_runs
select run_id, jobs.id, attempt_no, runs.worker_id, runs.org_id, runs.queue, runs.type, runs.template_id, runs.template_version,
       runs.claimed_at, runs.started_at, runs.finished_at, status, wait_us, cpu_us, peak_rss, exit_code, log_path, artifacts,
       coalesce(params, payload), error, traceback
  from runs join jobs on jobs.seq = job_seq where jobs.id = :id and attempt_no < :before
 order by attempt_no desc limit :limit;

-- name: count_jobs
-- core/eligibility.py: label_of. One pass over each partial index; finished successes are not touched.
select queue, 'queued', count(*) from jobs indexed by jobs_ready where state = 'queued' and ready = 1 group by 1
union all
select queue, case when run_at <= :now then 'queued' else 'scheduled' end, count(*) from jobs indexed by jobs_waiting
 where state = 'queued' and ready = 0 and waiting_on = 0 and parked_on is null group by 1, 2
union all
select queue, 'parked', count(*) from jobs indexed by jobs_parked
 where state = 'queued' and parked_on is not null and waiting_on = 0 group by 1
union all
select queue, 'blocked', count(*) from jobs indexed by jobs_blocked where state = 'queued' and waiting_on > 0 group by 1
union all
select queue, case when started_at is null then 'claimed' else 'running' end, count(*)
  from jobs indexed by jobs_leased where state = 'running' group by 1, 2
union all
select queue, 'dead', count(*) from jobs indexed by jobs_dead where state = 'dead' and dead_kind <> 'superseded' group by 1;

-- name: ready_queues
-- The queues that have ready jobs, found by jumping through the index: the cost does not grow with the number of jobs.
with recursive names (queue) as (
  select (select queue from jobs indexed by jobs_ready where state = 'queued' and ready = 1 order by queue limit 1)
  union all
  select (select later.queue from jobs as later indexed by jobs_ready
           where state = 'queued' and ready = 1 and later.queue > names.queue order by later.queue limit 1)
    from names where names.queue is not null
)
select queue from names where queue is not null;

-- name: waiting_types
select type, on_unknown, count(*) from (
  select type, on_unknown from jobs indexed by jobs_ready where queue = :queue and state = 'queued' and ready = 1
   order by priority desc, position, created_at, seq
   limit :limit)
 group by 1, 2;

-- name: all_queues
select name, positions, preset, settings, paused_at, fairness, age_after, age_to from queues order by name;

-- name: all_groups
select group_id, name, mode, on_failure, total, remaining, succeeded, failed, cancelled, created_at, finished_at
  from groups order by group_id;

-- name: all_limits
select key, max_used, used, per_second, burst, tokens, refilled_at, wake_at, weight, paused_at, declared from limits order by key;

-- name: jobs_ahead
-- core/eligibility.py: dispatch_order. Counted along the index that a claim walks.
select count(*) from (
  select 1 from jobs indexed by jobs_ready
   where queue = :queue and state = 'queued' and ready = 1 and priority >= :priority
     and (priority > :priority or (position, created_at, seq) < (:position, :created_at, :seq))
   limit :most);

-- name: number_range
select (select seq from jobs order by seq limit 1), (select seq from jobs order by seq desc limit 1);

-- name: created_about
-- When the job with this number was created, or the one before it, or else the first.
select coalesce((select created_at from jobs where seq <= :seq order by seq desc limit 1),
                (select created_at from jobs order by seq limit 1));

-- name: seen_lately
-- What the newest jobs are called, each kind once.
select distinct queue, type, org_id, worker_id, tags from (
  select queue, type, org_id, worker_id, tags from jobs order by seq desc limit :jobs);

-- name: running_now
-- Column order: windlass.types.RunningCount.
select worker_id, queue, count(*) from jobs indexed by jobs_leased where state = 'running' group by worker_id, queue;

-- name: ended_jobs
select count(*) from (
  select 1 from jobs indexed by jobs_finished where state = :state and finished_at is not null limit :most);
