-- Ending executions. core/changes.py: effect_of says what each outcome writes; core/guards.py: judge says who may.
-- Rows are locked in the order of their numbers before they are changed.

-- name: seqs_of
select id, seq, history from windlass.jobs where id = any(:ids::text[]);

-- name: guards
-- Without a lock: to say why something was refused.
select seq, state, lease_token, windlass.micros(lease_expires_at), last_token, last_outcome, retry_mode,
       windlass.micros(cancel_requested_at), group_id, permits::text, id, awaited, windlass.micros(claimed_at)
  from windlass.jobs where seq = any(:seqs::bigint[]);

-- name: lock_guards
select seq, state, lease_token, windlass.micros(lease_expires_at), last_token, last_outcome, retry_mode,
       windlass.micros(cancel_requested_at), group_id, permits::text, id, awaited, windlass.micros(claimed_at)
  from windlass.jobs where seq = any(:seqs::bigint[]) order by seq for no key update;

-- name: try_guards
-- The same without waiting: what somebody holds is passed over.
select seq, state, lease_token, windlass.micros(lease_expires_at), last_token, last_outcome, retry_mode,
       windlass.micros(cancel_requested_at), group_id, permits::text, id, awaited, windlass.micros(claimed_at)
  from windlass.jobs where seq = any(:seqs::bigint[]) order by seq for no key update skip locked;

-- name: shared_rows_of
-- Groups that jobs belong to and permits that their leases hold, before anything is locked. The group is frozen; permits
-- change only with the lease, whose token is looked at under the lock, or by one whom `hold_claims` makes wait: whoever is about
-- to end runs says so here, before it holds anything. Looking for the limits afterwards says so too, but too late: a new one
-- that came between would have counted a plain success that ends by what was seen of it here.
with nothing as (delete from windlass.barrier where false)
select seq, group_id, permits::text from windlass.jobs
 where seq = any(:seqs::bigint[]) and (group_id is not null or permits is not null);

-- name: concerning
-- The same of jobs that people change, with the keys for which others may wait behind them.
with nothing as (delete from windlass.barrier where false)
select group_id, permits::text, limit_keys::text, type, org_id, tags::text from windlass.jobs where seq = any(:seqs::bigint[]);

-- name: ack
-- The hot path: any number of plain successes in one statement. What the fence refuses is not answered, nor what somebody
-- holds: one such row must not keep the others waiting; nor whom others wait for, who are told by the way of all other ends.
-- What holds permits is left to one who has locked their limits.
-- Values are not joined but looked up: `:seqs` is sorted, so width_bucket finds a row's place in it, and a join that could be
-- done the wrong way round is one that some day will be. Nothing is said of the state, which a token implies: the index of
-- leases would come into reach, and be walked through by a planner who believes that nothing runs. `:which` tells which of
-- the (few) tokens is a row's; the epoch stands for no start, because places in an array without nulls are found at once.
-- `(select …)` is worked out once, not for each row.
with locked as materialized (
  select seq from windlass.jobs where seq = any(:seqs::bigint[]) order by seq for no key update skip locked
), acked as (
  update windlass.jobs
     set state = 'succeeded', lease_token = null, lease_expires_at = null, permits = null, last_token = lease_token,
         last_outcome = 'ack',
         finished_at = (:ats::timestamptz[])[width_bucket(seq, :seqs::bigint[])],
         started_at = coalesce(started_at, nullif((:starts::timestamptz[])[width_bucket(seq, :seqs::bigint[])], 'epoch')),
         updated_at = windlass.later(updated_at, (select windlass.at(:now)))
   where seq = any(array(select seq from locked)) and lease_expires_at > (select windlass.at(:now)) and not awaited
     and lease_token = (:tokens::text[])[(:which::bigint[])[width_bucket(seq, :seqs::bigint[])]]
     and (:limited or permits is null)
  returning seq
), closed as (
  update windlass.runs
     set status = 'completed', finished_at = (:ats::timestamptz[])[width_bucket(job_seq, :seqs::bigint[])],
         started_at = coalesce(started_at, nullif((:starts::timestamptz[])[width_bucket(job_seq, :seqs::bigint[])], 'epoch'),
                               (:ats::timestamptz[])[width_bucket(job_seq, :seqs::bigint[])])
   where job_seq = any(array(select seq from acked)) and status is null
)
select seq from acked;

-- name: ack_unkept
-- The same where some of them run without a row: those are counted, one row for each kind and minute. core/history.py: batches
with locked as materialized (
  select seq from windlass.jobs where seq = any(:seqs::bigint[])
   order by seq
     for no key update skip locked
), acked as (
  update windlass.jobs
     set state = 'succeeded', lease_token = null, lease_expires_at = null, permits = null, last_token = lease_token,
         last_outcome = 'ack',
         finished_at = (:ats::timestamptz[])[width_bucket(seq, :seqs::bigint[])],
         started_at = coalesce(started_at, nullif((:starts::timestamptz[])[width_bucket(seq, :seqs::bigint[])], 'epoch')),
         updated_at = windlass.later(updated_at, (select windlass.at(:now)))
   where seq = any(array(select seq from locked)) and not awaited and permits is null and lease_expires_at > (select windlass.at(:now))
     and (:tokens::text[])[(:which::bigint[])[width_bucket(seq, :seqs::bigint[])]] = lease_token
  returning seq, history, org_id, queue, type, queued_at, run_at, claimed_at, started_at, finished_at
), closed as (
  update windlass.runs
     set status = 'completed', finished_at = (:ats::timestamptz[])[width_bucket(job_seq, :seqs::bigint[])],
         started_at = coalesce(started_at, nullif((:starts::timestamptz[])[width_bucket(job_seq, :seqs::bigint[])], 'epoch'),
                               (:ats::timestamptz[])[width_bucket(job_seq, :seqs::bigint[])])
   where job_seq = any(array(select seq from acked where history is null)) and status is null
), metered as (
  insert into windlass.usage_batches (at, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us)
  select max(finished_at), org_id, queue, type, 'completed', count(*),
         extract(epoch from sum(greatest(finished_at - started_at, interval '0'))) * 1000000,
         extract(epoch from sum(greatest(claimed_at - greatest(queued_at, run_at), interval '0'))) * 1000000, 0
    from acked where history is not null
   group by date_bin(interval '1 minute', finished_at, timestamptz 'epoch'), org_id, queue, type
)
select seq from acked;

-- name: meter
-- The same of jobs that have succeeded in this transaction. `:seqs` is sorted.
insert into windlass.usage_batches (at, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select max(finished_at), org_id, queue, type, 'completed', count(*),
       extract(epoch from sum(greatest(finished_at - started_at, interval '0'))) * 1000000,
       extract(epoch from sum(greatest(claimed_at - greatest(queued_at, run_at), interval '0'))) * 1000000,
       sum(coalesce((:cpu_us::bigint[])[width_bucket(seq, :seqs::bigint[])], 0)),
       max((:peak_rss::bigint[])[width_bucket(seq, :seqs::bigint[])])
  from windlass.jobs where seq = any(:seqs::bigint[])
 group by date_bin(interval '1 minute', finished_at, timestamptz 'epoch'), org_id, queue, type;

-- name: move
-- Everything else: any number of judged rows, whatever becomes of each. `:seqs` is sorted here too.
with moved as (
  update windlass.jobs
     set state = (:states::text[])[width_bucket(seq, :seqs::bigint[])],
         ready = case when (:finished_at::bigint[])[width_bucket(seq, :seqs::bigint[])] is not null then ready
                      else (:ready::boolean[])[width_bucket(seq, :seqs::bigint[])]
                           or ((:keep_run_at::boolean[])[width_bucket(seq, :seqs::bigint[])]
                               and (run_at is null or run_at <= windlass.at(:now))) end,
         run_at = case when (:keep_run_at::boolean[])[width_bucket(seq, :seqs::bigint[])] then run_at
                       else windlass.at((:run_at::bigint[])[width_bucket(seq, :seqs::bigint[])]) end,
         attempts = coalesce((:attempts::bigint[])[width_bucket(seq, :seqs::bigint[])], attempts),
         skipped = skipped + (:skipped::bigint[])[width_bucket(seq, :seqs::bigint[])],
         lost = least(lost + (:lost::bigint[])[width_bucket(seq, :seqs::bigint[])], 9007199254740992),
         lease_token = null, lease_expires_at = null, permits = null, last_token = lease_token,
         last_outcome = (:outcomes::text[])[width_bucket(seq, :seqs::bigint[])],
         worker_id = case when (:finished_at::bigint[])[width_bucket(seq, :seqs::bigint[])] is not null then worker_id end,
         started_at = coalesce(started_at, windlass.at((:starts::bigint[])[width_bucket(seq, :seqs::bigint[])])),
         finished_at = windlass.at((:finished_at::bigint[])[width_bucket(seq, :seqs::bigint[])]),
         failed_at = coalesce(windlass.at((:failed_at::bigint[])[width_bucket(seq, :seqs::bigint[])]), failed_at),
         last_error = coalesce((:last_errors::text[])[width_bucket(seq, :seqs::bigint[])], last_error),
         result = (:results::bytea[])[width_bucket(seq, :seqs::bigint[])],
         dead_kind = (:dead_kinds::text[])[width_bucket(seq, :seqs::bigint[])],
         dead_at = windlass.at((:dead_at::bigint[])[width_bucket(seq, :seqs::bigint[])]),
         dead_reason = (:dead_reasons::text[])[width_bucket(seq, :seqs::bigint[])],
         superseded_by = coalesce((:superseded_by::text[])[width_bucket(seq, :seqs::bigint[])], superseded_by),
         updated_at = windlass.touched(updated_at, :now)
   where seq = any(:seqs::bigint[])
     and lease_token = (:tokens::text[])[width_bucket(seq, :seqs::bigint[])]
  returning seq
)
update windlass.runs
   set status = (:statuses::text[])[width_bucket(job_seq, :seqs::bigint[])],
       finished_at = windlass.at((:ats::bigint[])[width_bucket(job_seq, :seqs::bigint[])]),
       started_at = coalesce(started_at, windlass.at(coalesce((:starts::bigint[])[width_bucket(job_seq, :seqs::bigint[])],
                                                              (:ats::bigint[])[width_bucket(job_seq, :seqs::bigint[])]))),
       error = (:errors::text[])[width_bucket(job_seq, :seqs::bigint[])],
       traceback = (:tracebacks::text[])[width_bucket(job_seq, :seqs::bigint[])],
       exit_code = (:exit_codes::bigint[])[width_bucket(job_seq, :seqs::bigint[])],
       cpu_us = (:cpu_us::bigint[])[width_bucket(job_seq, :seqs::bigint[])],
       peak_rss = (:peak_rss::bigint[])[width_bucket(job_seq, :seqs::bigint[])],
       log_path = (:log_paths::text[])[width_bucket(job_seq, :seqs::bigint[])],
       artifacts = artifacts || (:artifacts::text[])[width_bucket(job_seq, :seqs::bigint[])]::jsonb
 where job_seq = any(array(select seq from moved)) and status is null;

-- name: add_events
insert into windlass.outbox (event, job_id, org_id, body, created_at)
select value ->> 0, value ->> 1, value ->> 2, value ->> 3, windlass.at(:now)
  from jsonb_array_elements(:items::jsonb) with ordinality as item(value, place) order by place;

-- name: places
select seq, queue, priority from windlass.jobs where seq = any(:seqs::bigint[]);
