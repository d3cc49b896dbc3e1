-- Ending executions. core/changes.py: effect_of says what each outcome writes; core/guards.py: judge says who may.
-- Rows are locked in the order of their numbers before they are changed.

-- name: seqs_of
select id, seq from windlass.jobs where id = any(:ids::text[]);

-- name: guards
-- Without a lock: to say why something was refused.
select seq, state, lease_token, windlass.micros(lease_expires_at), last_token, last_outcome, retry_mode,
       windlass.micros(cancel_requested_at), group_id
  from windlass.jobs where seq = any(:seqs::bigint[]);

-- name: lock_guards
select seq, state, lease_token, windlass.micros(lease_expires_at), last_token, last_outcome, retry_mode,
       windlass.micros(cancel_requested_at), group_id
  from windlass.jobs where seq = any(:seqs::bigint[]) order by seq for update;

-- name: shared_rows_of
-- Groups and limits that jobs belong to. Both are frozen, so reading them before anything is locked is safe.
select group_id, limit_keys::text from windlass.jobs
 where seq = any(:seqs::bigint[]) and (group_id is not null or limit_keys is not null);

-- name: lock_groups
select group_id from windlass.groups where group_id = any(:ids::text[]) order by group_id for update;

-- name: ack
-- The hot path: any number of plain successes in one statement. What the fence refuses is not answered.
with done as materialized (
  select * from unnest(:seqs::bigint[], :tokens::text[], :ats::bigint[], :starts::bigint[]) as done (seq, token, at, started_at)
), locked as materialized (
  select seq from windlass.jobs where seq = any(:seqs::bigint[]) order by seq for update
), acked as (
  update windlass.jobs
     set state = 'succeeded', lease_token = null, lease_expires_at = null, last_token = done.token, last_outcome = 'ack',
         finished_at = windlass.at(done.at), started_at = coalesce(jobs.started_at, windlass.at(done.started_at)),
         updated_at = windlass.touched(updated_at, :now)
    from done
   where jobs.seq = any(array(select seq from locked)) and done.seq = jobs.seq
     and state = 'running' and lease_token = done.token and lease_expires_at > windlass.at(:now)
  returning jobs.seq
), closed as (
  update windlass.runs
     set status = 'completed', finished_at = windlass.at(done.at),
         started_at = coalesce(runs.started_at, windlass.at(done.started_at), windlass.at(done.at))
    from done
   where job_seq = any(array(select seq from acked)) and done.seq = job_seq and status is null
)
select seq from acked;

-- name: move
-- Everything else: any number of judged rows, whatever becomes of each.
update windlass.jobs
   set state = moved.state,
       ready = case when moved.finished_at is null
                    then moved.ready or (moved.keep_run_at and (jobs.run_at is null or jobs.run_at <= windlass.at(:now)))
                    else jobs.ready end,
       run_at = case when moved.keep_run_at then jobs.run_at else windlass.at(moved.run_at) end,
       attempts = coalesce(moved.attempts, jobs.attempts), skipped = jobs.skipped + moved.skipped,
       lost = jobs.lost + moved.lost, lease_token = null, lease_expires_at = null, last_token = moved.token,
       last_outcome = moved.outcome, worker_id = case when moved.finished_at is null then null else worker_id end,
       started_at = coalesce(jobs.started_at, windlass.at(moved.started_at)), finished_at = windlass.at(moved.finished_at),
       failed_at = coalesce(windlass.at(moved.failed_at), jobs.failed_at),
       last_error = coalesce(moved.last_error, jobs.last_error), result = moved.result, dead_kind = moved.dead_kind,
       dead_at = windlass.at(moved.dead_at), dead_reason = moved.dead_reason,
       superseded_by = coalesce(moved.superseded_by, jobs.superseded_by),
       updated_at = windlass.touched(updated_at, :now)
  from unnest(:seqs::bigint[], :tokens::text[], :states::text[], :ready::boolean[], :keep_run_at::boolean[], :run_at::bigint[],
              :attempts::bigint[], :skipped::bigint[], :lost::bigint[], :outcomes::text[], :started_at::bigint[],
              :finished_at::bigint[], :failed_at::bigint[], :last_errors::text[], :results::bytea[], :dead_kinds::text[],
              :dead_at::bigint[], :dead_reasons::text[], :superseded_by::text[])
       as moved (seq, token, state, ready, keep_run_at, run_at, attempts, skipped, lost, outcome, started_at, finished_at,
                 failed_at, last_error, result, dead_kind, dead_at, dead_reason, superseded_by)
 where jobs.seq = any(:seqs::bigint[]) and jobs.seq = moved.seq and jobs.state = 'running' and lease_token = moved.token;

-- name: close_run
update windlass.runs
   set status = closed.status, finished_at = windlass.at(closed.at),
       started_at = coalesce(runs.started_at, windlass.at(closed.started_at), windlass.at(closed.at)), error = closed.error,
       traceback = closed.traceback, exit_code = closed.exit_code, cpu_us = closed.cpu_us, peak_rss = closed.peak_rss,
       log_path = closed.log_path, artifacts = runs.artifacts || closed.artifacts::jsonb
  from unnest(:seqs::bigint[], :statuses::text[], :ats::bigint[], :starts::bigint[], :errors::text[], :tracebacks::text[],
              :exit_codes::bigint[], :cpu_us::bigint[], :peak_rss::bigint[], :log_paths::text[], :artifacts::text[])
       as closed (seq, status, at, started_at, error, traceback, exit_code, cpu_us, peak_rss, log_path, artifacts)
 where job_seq = any(:seqs::bigint[]) and job_seq = closed.seq and runs.status is null;

-- name: count_member
-- core/counters.py: count_member, as a delta.
update windlass.groups
   set remaining = remaining - 1, succeeded = succeeded + (:ending::text = 'succeeded')::int, failed = failed + (:ending::text = 'failed')::int,
       cancelled = cancelled + (:ending::text = 'cancelled')::int,
       finished_at = case when remaining = 1 then windlass.at(:now) end
 where group_id = :group_id and remaining > 0;

-- name: uncount_failed
-- core/counters.py: uncount_member. A dead member was brought back by a person.
update windlass.groups set remaining = remaining + 1, failed = failed - 1, finished_at = null
 where group_id = :group_id and failed > 0;

-- name: add_event
insert into windlass.outbox (event, job_id, org_id, body, created_at)
values (:event, :job_id, :org_id, :body, windlass.at(:now));

-- name: places
select seq, queue, priority from windlass.jobs where seq = any(:seqs::bigint[]);
