-- Claiming, extending and taking back. core/eligibility.py holds the same rules in Python.

-- piece: wanted
-- core/eligibility.py: is_wanted
(:types is null or type in (select value from json_each(:types))) and (not :unhandled or on_unknown = 'dead');

-- piece: claimed
-- These columns follow windlass.types.Claimed.
seq, id, type, queue, org_id, priority, max(queued_at, coalesce(run_at, 0)), timeout_ns, attempts, executions + 1, skipped,
lost, max_attempts, max_lost, retry_mode, crash_policy, on_unknown, retry_policy, group_id, created_at, codec, payload,
headers, permits, history;

-- name: glance
-- Which of a claim's steps have anything to do: an update that changes no row costs several times what this does.
select exists (select 1 from jobs indexed by jobs_leased
                where state = 'running' and queue in (select value from json_each(:queues)) and lease_expires_at <= :now),
       exists (select 1 from jobs indexed by jobs_waiting
                where queue in (select value from json_each(:queues)) and state = 'queued' and ready = 0 and waiting_on = 0
                  and parked_on is null and run_at <= :now),
       exists (select 1 from limits) or exists (select 1 from queues where fairness = 'fair')
         or exists (select 1 from meta where key = 'unbarred' and value <> '[]'),
       exists (select 1 from queues where paused_at is not null)
         or exists (select 1 from reservations indexed by reservations_active where status = 'ACTIVE');

-- name: promote
-- Jobs whose time has come move to the ready index, so that a million future jobs cost a claim nothing.
update jobs set ready = 1, updated_at = max(:now, updated_at + 1)
 where seq in (
   select seq from jobs indexed by jobs_waiting
    where queue in (select value from json_each(:queues)) and state = 'queued' and ready = 0 and waiting_on = 0
      and parked_on is null and run_at <= :now
    limit :bite)
returning seq;

-- name: open_queues
select value from json_each(:queues)
 where not exists (select 1 from queues where name = value and paused_at is not null)
   and not exists (select 1 from reservations indexed by reservations_active where queue = value and status = 'ACTIVE');

-- name: pick
-- The first of each queue in the one total order (core/eligibility.py: dispatch_order), found in the index alone.
select -priority, position, created_at, seq, asked.key from json_each(:queues) as asked cross join jobs
 where seq in (
   select first.seq from jobs as first indexed by jobs_ready
    where first.queue = asked.value and first.state = 'queued' and first.ready = 1
    order by first.priority desc, first.position, first.created_at, first.seq
    limit :each);

-- name: pick_types
-- core/eligibility.py: is_wanted
select -priority, position, created_at, seq, asked.key from json_each(:queues) as asked cross join jobs
 where seq in (
   select first.seq from jobs as first indexed by jobs_ready
    where first.queue = asked.value and first.state = 'queued' and first.ready = 1
      and (:types is null or first.type in (select value from json_each(:types)))
      and (not :unhandled or first.on_unknown = 'dead')
    order by first.priority desc, first.position, first.created_at, first.seq
    limit :each);

-- name: pick_rows
-- The common claim (one queue, any type, no limits) reads all it needs at once; reading first is cheaper than returning.
select <claimed>
  from jobs indexed by jobs_ready
 where queue = :queue and state = 'queued' and ready = 1
 order by priority desc, position, created_at, seq
 limit :limit;

-- name: pick_rows_types
select <claimed>
  from jobs indexed by jobs_ready
 where queue = :queue and state = 'queued' and ready = 1
   and <wanted>
 order by priority desc, position, created_at, seq
 limit :limit;

-- name: picked
-- The same of rows that were picked before.
select <claimed>
  from jobs where seq in (select value from json_each(:seqs));

-- name: claim
update jobs
   set state = 'running', lease_token = :token, lease_expires_at = :expires_at, worker_id = :worker_id,
       claimed_at = :now, started_at = :started_at, executions = executions + 1, progress = null, progress_note = null,
       updated_at = max(:now, updated_at + 1)
 where seq in (select value from json_each(:seqs)) and state = 'queued';

-- name: claim_limited
-- The same with permits. Items: {seq: permits, or null}.
update jobs
   set state = 'running', lease_token = :token, lease_expires_at = :expires_at, worker_id = :worker_id,
       claimed_at = :now, started_at = :started_at, executions = executions + 1, progress = null, progress_note = null,
       permits = held.value, updated_at = max(:now, updated_at + 1)
  from json_each(:items) as held
 where jobs.seq = cast(held.key as integer) and state = 'queued';

-- name: insert_runs
-- core/rows.py: run_of. What a hand wrote under this number stays, and stops nobody.
insert into runs (job_seq, attempt_no, run_id, worker_id, org_id, queue, type, template_id, template_version, claimed_at,
                  started_at, wait_us, artifacts)
select seq, executions, :prefix || printf('%012x', seq), worker_id, org_id, queue, type, template_id, template_version,
       claimed_at, started_at, max(claimed_at - max(queued_at, coalesce(run_at, 0)), 0), '[]'
  from jobs where seq in (select value from json_each(:seqs)) and history is null
on conflict do nothing;

-- name: keep_runs
-- The same for jobs that run without a row, of whose run one is kept after all. Items: {seq: prefix}. What was there already
-- under this number stays.
insert into runs (job_seq, attempt_no, run_id, worker_id, org_id, queue, type, template_id, template_version, claimed_at,
                  started_at, wait_us, artifacts)
select seq, executions, kept.value || printf('%012x', seq), worker_id, org_id, queue, jobs.type, template_id, template_version,
       claimed_at, started_at, max(claimed_at - max(queued_at, coalesce(run_at, 0)), 0), '[]'
  from json_each(:items) as kept cross join jobs on seq = cast(kept.key as integer)
 where true
on conflict do nothing;

-- name: extend
update jobs
   set lease_expires_at = max(:expires_at, iif(:now + :overtaken_by < updated_at, lease_expires_at, 0)),
       started_at = coalesce(jobs.started_at, asked.started_at),
       progress = iif(:now + :overtaken_by < updated_at, coalesce(jobs.progress, asked.progress), coalesce(asked.progress, jobs.progress)),
       progress_note = iif(:now + :overtaken_by < updated_at, coalesce(progress_note, asked.note), coalesce(asked.note, progress_note)),
       updated_at = max(:now, updated_at + 1)
  from (select value ->> 0 as seq, value ->> 1 as token, value ->> 2 as started_at, value ->> 3 as progress, value ->> 4 as note
          from json_each(:items)) as asked
 where jobs.seq = asked.seq and state = 'running' and lease_token = asked.token and lease_expires_at > :now
returning jobs.seq, lease_expires_at, cancel_requested_at is not null;

-- name: begin_runs
-- The true start of runs that were claimed before their handler began.
update runs set started_at = asked.started_at
  from (select value ->> 0 as seq, value ->> 2 as started_at from json_each(:items)) as asked
 where job_seq = asked.seq and status is null and runs.started_at is null and asked.started_at is not null;

-- name: lapsed
-- Leases that need no decision (core/eligibility.py: needs_decision): what they hold, which their end forgets, and by what their
-- runs are known.
select permits, seq, history, lease_token, claimed_at from jobs indexed by jobs_leased
 where state = 'running' and queue in (select value from json_each(:queues)) and lease_expires_at <= :now
   and crash_policy = 'requeue' and cancel_requested_at is null
   and (max_lost = 0 or lost + 1 < max_lost)
   and (max_attempts = 0 or max(attempts + 1, executions - skipped) < max_attempts)
 order by lease_expires_at, seq
 limit :bite;

-- name: expire
-- core/changes.py: Expire, for what `lapsed` has found in the same transaction.
update jobs
   set state = 'queued', ready = 1, run_at = null, lost = min(lost + 1, 9007199254740992), last_token = lease_token, last_outcome = 'expire',
       lease_token = null, lease_expires_at = null, worker_id = null, permits = null, updated_at = max(:now, updated_at + 1)
 where seq in (select value from json_each(:seqs))
returning seq, null, id, org_id, type, queue, executions, lost;

-- name: close_expired
update runs set status = 'failed', error = :error, finished_at = :now, started_at = coalesce(started_at, :now)
 where job_seq in (select value from json_each(:seqs)) and status is null;

-- name: leased_queues
select distinct queue from jobs where state = 'running';

-- name: leased_under
-- A token stands in no index: it is looked for among the valid leases of its queues.
select seq from jobs indexed by jobs_leased
 where state = 'running' and queue in (select value from json_each(:queues)) and lease_expires_at > :now
   and lease_token = :token and worker_id = :worker_id
 order by priority desc, position, created_at, seq
 limit :limit;

-- name: undecided
select jobs.seq, id, jobs.type, jobs.queue, jobs.org_id, priority, max(queued_at, coalesce(run_at, 0)), timeout_ns, attempts, executions, skipped, lost,
       max_attempts, max_lost, retry_mode, crash_policy, on_unknown, retry_policy, group_id, created_at, codec, payload,
       headers, permits, history, run_id, lease_token, jobs.claimed_at, lease_expires_at
  from jobs left join runs on job_seq = jobs.seq and attempt_no = executions
 where state = 'running' and lease_expires_at <= :now and (run_id is not null or history is not null)
   and (crash_policy = 'fail' or cancel_requested_at is not null
        or (max_lost > 0 and lost + 1 >= max_lost)
        or (max_attempts > 0 and max(attempts + 1, executions - skipped) >= max_attempts))
 order by lease_expires_at, jobs.seq
 limit :limit;
