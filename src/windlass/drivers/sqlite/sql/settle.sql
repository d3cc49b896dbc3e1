-- Ending executions. core/changes.py: effect_of says what each outcome writes; core/guards.py: judge says who may.

-- name: seqs_of
select id, seq, history from jobs where id in (select value from json_each(:ids));

-- name: guards
-- Read under the write lock, only for what the fast path refused or what may bring a job back.
select seq, state, lease_token, lease_expires_at, last_token, last_outcome, retry_mode, cancel_requested_at, group_id,
       permits, id, awaited, claimed_at
  from jobs where seq in (select value from json_each(:seqs));

-- name: permits_of
select seq, permits from jobs where seq in (select value from json_each(:seqs)) and permits is not null;

-- name: try_ack
savepoint ack;

-- name: undo_ack
rollback to ack;

-- name: end_ack
release ack;

-- name: ack
-- The hot path: any number of plain successes of one claim in one statement. Items: {seq: at}. Whom others wait for is not
-- among them: those are told by the way of all other ends. Nor what holds permits,
-- unless that was seen to.
update jobs
   set state = 'succeeded', lease_token = null, lease_expires_at = null, last_token = :token, last_outcome = 'ack',
       finished_at = done.value, permits = null, updated_at = max(:now, updated_at + 1)
  from json_each(:items) as done
 where jobs.seq = cast(done.key as integer) and state = 'running' and lease_token = :token and lease_expires_at > :now
   and (permits is null or :limited) and awaited = 0;

-- name: ack_begun
-- The same for jobs that were claimed before their handler began. Items: {seq: at and started_at, 18 digits each}: to cut a
-- text in two costs a third of what reading JSON within JSON does.
update jobs
   set state = 'succeeded', lease_token = null, lease_expires_at = null, last_token = :token, last_outcome = 'ack',
       finished_at = cast(substr(done.value, 1, 18) as integer),
       started_at = coalesce(jobs.started_at, cast(substr(done.value, 19) as integer)),
       permits = null, updated_at = max(:now, updated_at + 1)
  from json_each(:items) as done
 where jobs.seq = cast(done.key as integer) and state = 'running' and lease_token = :token and lease_expires_at > :now
   and (permits is null or :limited) and awaited = 0;

-- name: report
update runs set traceback = :traceback, exit_code = :exit_code, cpu_us = :cpu_us, peak_rss = :peak_rss, log_path = :log_path,
                artifacts = :artifacts
 where job_seq = :seq and status is null;

-- name: close_acked
update runs set status = 'completed', finished_at = done.value
  from json_each(:items) as done
 where job_seq = cast(done.key as integer) and runs.status is null and runs.started_at is not null;

-- name: close_begun
update runs
   set status = 'completed', finished_at = cast(substr(done.value, 1, 18) as integer),
       started_at = coalesce(runs.started_at, cast(substr(done.value, 19) as integer))
  from json_each(:items) as done
 where job_seq = cast(done.key as integer) and runs.status is null;

-- name: close_unstarted
-- Runs of which nobody ever told that they began: they start when they end.
update runs set status = 'completed', finished_at = done.value, started_at = done.value
  from json_each(:items) as done
 where job_seq = cast(done.key as integer) and runs.status is null;

-- name: move
update jobs
   set state = :state, ready = case when :finished_at is null then :ready or (:keep_run_at and (run_at is null or run_at <= :now)) else ready end,
       run_at = case when :keep_run_at then run_at else :run_at end,
       attempts = coalesce(:attempts, attempts), skipped = skipped + :skipped, lost = min(lost + :lost, 9007199254740992),
       lease_token = null, lease_expires_at = null, permits = null, last_token = :token, last_outcome = :outcome,
       worker_id = case when :finished_at is null then null else worker_id end,
       started_at = coalesce(started_at, :started_at), finished_at = :finished_at,
       failed_at = coalesce(:failed_at, failed_at), last_error = coalesce(:last_error, last_error),
       result = :result, dead_kind = :dead_kind, dead_at = :dead_at, dead_reason = :dead_reason,
       superseded_by = coalesce(:superseded_by, superseded_by), updated_at = max(:now, updated_at + 1)
 where seq = :seq and state = 'running' and lease_token = :token;

-- name: close_run
update runs set status = :status, finished_at = :at, started_at = coalesce(started_at, :started_at, :at), error = :error
 where job_seq = :seq and status is null;

-- name: add_events
insert into outbox (event, job_id, org_id, body, created_at)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, :now from json_each(:items) order by key;

-- name: place
select queue, priority from jobs where seq = :seq;

-- name: meter
-- core/history.py: batches. Items: {seq: [cpu, memory]} of jobs that have just succeeded and whose runs left no row.
insert into usage_batches (at, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select max(finished_at), org_id, queue, jobs.type, 'completed', count(*),
       sum(max(finished_at - coalesce(started_at, finished_at), 0)),
       sum(max(claimed_at - max(queued_at, coalesce(run_at, 0)), 0)), sum(coalesce(ended.value ->> 0, 0)), max(ended.value ->> 1)
  from json_each(:items) as ended cross join jobs on seq = cast(ended.key as integer)
 group by finished_at / 60000000, org_id, queue, jobs.type;
