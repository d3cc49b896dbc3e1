-- Claiming, extending and taking back. core/eligibility.py holds the same rules in Python.
-- Rows are addressed by `seq = any(array)`: the planner takes an index for that whatever it believes of their number.

-- piece: plain_loss
-- That a lapsed lease needs no decision (core/eligibility.py: needs_decision).
crash_policy = 'requeue' and cancel_requested_at is null and (max_lost = 0 or lost + 1 < max_lost)
and (max_attempts = 0 or greatest(attempts + 1, executions - skipped) < max_attempts);

-- piece: wanted
-- core/eligibility.py: is_wanted
(:types::text[] is null or type = any(:types::text[])) and (not :unhandled or on_unknown = 'dead');

-- piece: claimed
-- These columns follow windlass.types.Claimed.
seq, id, type, queue, org_id, priority, windlass.micros(greatest(queued_at, run_at)), timeout_ns, attempts, executions,
skipped, lost, max_attempts, max_lost, retry_mode, crash_policy, on_unknown, retry_policy, group_id,
windlass.micros(created_at), codec, payload, headers::text, permits::text, history;

-- piece: left_waiting
-- Somebody may wait for a permit of a limit that was removed: ops/limits.py: go_on
exists (select from windlass.meta where key = 'unbarred' and value <> '[]');

-- piece: lease
-- What was picked is leased and its runs are opened, unless a limit concerns one of them.
barred as materialized (
  select case when exists (select from windlass.limits) then exists (
           select from windlass.limits where key = any(array(
             select 'type:' || type from picked union select 'org:' || org_id from picked
              union select jsonb_array_elements_text(limit_keys) from picked
              union select 'tag:' || jsonb_array_elements_text(tags) from picked))) else false end as barred
), leased as (
  update windlass.jobs
     set state = 'running', lease_token = :token, lease_expires_at = (select windlass.at(:expires_at)), worker_id = :worker_id,
         claimed_at = (select windlass.at(:now)), started_at = (select windlass.at(:started_at)), executions = executions + 1,
         progress = null, progress_note = null, updated_at = windlass.later(updated_at, (select windlass.at(:now)))
   where seq = any(array(select seq from picked where not (select barred from barred)))
  returning seq, id, type, queue, org_id, priority, timeout_ns, attempts, executions, skipped, lost, max_attempts, max_lost,
            retry_mode, crash_policy, on_unknown, retry_policy, group_id, created_at, codec, payload, headers, permits, history,
            position, template_id, template_version, queued_at, run_at
), opened as (
  insert into windlass.runs (job_seq, attempt_no, run_id, worker_id, org_id, queue, type, template_id, template_version,
                             claimed_at, started_at, wait_us)
  select seq, executions, :prefix || windlass.in_hex(seq), :worker_id, org_id, queue, type, template_id,
         template_version, (select windlass.at(:now)), (select windlass.at(:started_at)),
         greatest(:now - windlass.micros(greatest(queued_at, run_at)), 0)
    from leased where history is null
);

-- name: claim_one
-- The common claim: one queue, one statement. Picking locks what it takes and steps over what others hold; the update
-- reads the locked rows by number, from behind a fence. When there is something to do first (leases to take back, jobs to
-- promote, limits or turns to respect) it takes nothing and says so in the first column. Without `look` it was done as far as others
-- allow: what they hold at this moment must not keep anybody from what is ready. Limits that concern none of the picked jobs
-- cost them little; when one does, everything is left to a transaction that locks limits first. Inside a transaction nothing
-- may be picked before that is known, because what is picked stays locked. `nothing`: see `hold_claims`.
with nothing as (delete from windlass.barrier where false), glance as materialized (
  select closed,
         case when fair or exists (select from windlass.limits where key in ('global', 'queue:' || :queue))
                or exists (select from windlass.limits where wake_at <= windlass.at(:now))
                or (not :look and exists (select from windlass.limits)) then 2
              when :look and ((:reclaim and (exists (
                      select from windlass.jobs
                       where state = 'running' and queue = :queue and lease_expires_at <= windlass.at(:now)
                         and <plain_loss>)
                      or exists (
                      select from windlass.reservations
                       where queue = :queue and status = 'ACTIVE' and expires_at <= windlass.at(:now))))
                or (not closed and exists (
                      select from windlass.jobs
                       where queue = :queue and state = 'queued' and not ready and waiting_on = 0 and parked_on is null
                         and run_at <= windlass.at(:now)))) then 1
              else 0 end as todo
    from (select exists (select from windlass.queues where name = :queue and paused_at is not null)
              or exists (select from windlass.reservations where queue = :queue and status = 'ACTIVE') as closed,
                 exists (select from windlass.queues where name = :queue and fairness = 'fair') as fair) as queue
), picked as materialized (
  select seq, type, org_id, limit_keys, tags from windlass.jobs
   where (select todo = 0 and not closed from glance)
     and queue = :queue and state = 'queued' and ready
     and <wanted>
   order by priority desc, position, created_at, seq
   limit :limit
     for no key update skip locked
), <lease>
select case when todo = 0 and ((select barred from barred) or (seq is null and <left_waiting>)) then 2 else todo end,
       <claimed>
  from glance left join leased on true
 order by priority desc, position, created_at, seq;

-- name: claim_short
-- A claim that begins where the last ones ended: cursor.py says when, and what it may miss for how long. Of each priority that
-- was seen what stands at its floor or behind it (low = high), and all of those in between, in the one order over all of them.
-- The limit ends it as soon as there is enough, so nothing is locked that is not taken. It promotes nothing and takes
-- nothing back; where limits or turns concern it, it takes nothing and says so. The second column is the position.
with nothing as (delete from windlass.barrier where false),
glance as materialized (
  select exists (select from windlass.queues where name = :queue and paused_at is not null)
      or exists (select from windlass.reservations where queue = :queue and status = 'ACTIVE') as closed,
         case when exists (select from windlass.queues where name = :queue and fairness = 'fair')
                or exists (select from windlass.limits where key in ('global', 'queue:' || :queue))
                or exists (select from windlass.limits where wake_at <= windlass.at(:now)) then 2 else 0 end as todo
), picked as materialized (
  select taken.* from unnest(:lows::bigint[], :highs::bigint[], :floors::bigint[]) as span (low, high, floor)
   cross join lateral (
     select * from (
       select seq, type, org_id, limit_keys, tags from windlass.jobs
        where (select not closed and todo = 0 from glance) and low = high
          and queue = :queue and state = 'queued' and ready and priority = low and position >= floor
          and <wanted>
        order by priority desc, position, created_at, seq
        limit :limit
          for no key update skip locked) as behind
     union all
     select * from (
       select seq, type, org_id, limit_keys, tags from windlass.jobs
        where (select not closed and todo = 0 from glance) and low < high
          and queue = :queue and state = 'queued' and ready and priority > low and priority < high
          and <wanted>
        order by priority desc, position, created_at, seq
        limit :limit
          for no key update skip locked) as between_levels) as taken
   limit :limit
), <lease>
select case when todo = 0 and (select barred from barred) then 2 else todo end, position,
       <claimed>
  from glance left join leased on true
 order by priority desc, position, created_at, seq;

-- name: reached
-- The last position of each priority among these, and how many dead rows the server believes there are.
select priority, max(position), pg_stat_get_dead_tuples('windlass.jobs'::regclass) from windlass.jobs
 where seq = any(:seqs::bigint[]) group by priority;

-- name: claim_many
-- The same over several queues. Which queue gives how many is decided without locks, in the one order over all of them;
-- then each gives that many. So nothing is locked that is not taken, and nobody else finds a queue empty in vain.
with nothing as (delete from windlass.barrier where false), open_queues as materialized (
  select queue from unnest(:queues::text[]) as asked (queue)
   where not exists (select from windlass.queues where name = queue and paused_at is not null)
     and not exists (select from windlass.reservations as hold where hold.queue = asked.queue and status = 'ACTIVE')
), glance as materialized (
  select case when exists (select from windlass.queues where fairness = 'fair' and name = any(:queues::text[]))
                or exists (select from windlass.limits
                            where key = 'global' or key = any(array(select 'queue:' || queue from open_queues)))
                or exists (select from windlass.limits where wake_at <= windlass.at(:now))
                or (not :look and exists (select from windlass.limits)) then 2
              when :look and ((:reclaim and (exists (
                      select from windlass.jobs
                       where state = 'running' and queue = any(:queues::text[]) and lease_expires_at <= windlass.at(:now)
                         and <plain_loss>)
                      or exists (
                      select from windlass.reservations
                       where queue = any(:queues::text[]) and status = 'ACTIVE' and expires_at <= windlass.at(:now))))
                or exists (
                      select from windlass.jobs
                       where queue = any(array(select queue from open_queues)) and state = 'queued' and not ready
                         and waiting_on = 0 and parked_on is null and run_at <= windlass.at(:now))) then 1
              else 0 end as todo
), few as materialized (
  select open_queues.queue, head.* from open_queues cross join lateral (
    select priority, position, created_at, seq from windlass.jobs
     where jobs.queue = open_queues.queue and state = 'queued' and ready
       and <wanted>
     order by priority desc, position, created_at, seq
     limit :each) as head
   where (select todo from glance) = 0
), first as materialized (
  select * from few order by priority desc, position, created_at, seq limit :limit
), deep as materialized (
  select queue from first where :each < :limit group by queue having count(*) = :each
), heads as materialized (
  select queue, seq from first where not exists (select from deep)
  union all
  select queue, seq from (
    select * from (
      select * from few where queue not in (select queue from deep)
      union all
      select deep.queue, head.* from deep cross join lateral (
        select priority, position, created_at, seq from windlass.jobs
         where jobs.queue = deep.queue and state = 'queued' and ready
           and <wanted>
         order by priority desc, position, created_at, seq
         limit :limit) as head) as found
     order by priority desc, position, created_at, seq
     limit :limit) as deeper
   where exists (select from deep)
), shares as materialized (
  select queue, count(*) as jobs from heads group by queue
), picked as materialized (
  select taken.* from shares cross join lateral (
    select seq, type, org_id, limit_keys, tags from windlass.jobs
     where jobs.queue = shares.queue and state = 'queued' and ready
       and <wanted>
     order by priority desc, position, created_at, seq
     limit shares.jobs
       for no key update skip locked) as taken
), <lease>
select case when todo = 0 and (select barred from barred) then 2
            when todo = 0 and (select count(*) from heads) > (select count(*) from picked) then 3
            when todo = 0 and seq is null and <left_waiting> then 2 else todo end,
       <claimed>
  from glance left join leased on true
 order by priority desc, position, created_at, seq;

-- name: claimed_before
-- What a claim took whose reply was lost: nobody else writes this token.
select 0, <claimed>
  from windlass.jobs
 where state = 'running' and queue = any(:queues::text[]) and lease_expires_at = windlass.at(:expires_at) and lease_token = :token
 order by priority desc, position, created_at, seq;

-- name: glance
-- Which of a claim's steps have anything to do. What is due is promoted without asking.
select exists (select from windlass.jobs
                where state = 'running' and queue = any(:queues::text[]) and lease_expires_at <= windlass.at(:now)),
       exists (select from windlass.limits)
       or exists (select from windlass.queues where fairness = 'fair' and name = any(:queues::text[])),
       exists (select from windlass.reservations
                where queue = any(:queues::text[]) and status = 'ACTIVE' and expires_at <= windlass.at(:now));

-- name: promote
-- Jobs whose time has come move to the ready index, so that a million future jobs cost a claim nothing. What another
-- claim is promoting is stepped over. Queue by queue, each in the order of its index: thirty thousand that are due at once
-- are not sorted for each bite. Who comes by here is about to begin runs, and says so first: see `hold_claims`.
with nothing as (delete from windlass.barrier where false)
update windlass.jobs set ready = true, updated_at = windlass.touched(updated_at, :now)
 where seq = any(array(
   select due.seq from unnest(:queues::text[]) as asked (queue) cross join lateral (
     select seq from windlass.jobs
      where jobs.queue = asked.queue and state = 'queued' and not ready and waiting_on = 0 and parked_on is null
        and run_at <= windlass.at(:now)
      order by run_at
      limit :bite
        for no key update skip locked) as due
    limit :bite))
returning seq;

-- name: open_queues
select queue from unnest(:queues::text[]) as asked (queue)
 where not exists (select from windlass.queues where name = queue and paused_at is not null)
   and not exists (select from windlass.reservations as hold where hold.queue = asked.queue and status = 'ACTIVE');

-- name: take
-- Those of the picked rows that are still there and that nobody else holds. Said so that no index of ready jobs is thought of.
select seq from windlass.jobs where seq = any(:seqs::bigint[]) and case when ready then state end = 'queued'
 order by seq for no key update skip locked;

-- name: claim
-- Rows that are locked already, each with its permits.
with leased as (
  update windlass.jobs
     set state = 'running', lease_token = :token, lease_expires_at = windlass.at(:expires_at), worker_id = :worker_id,
         claimed_at = windlass.at(:now), started_at = windlass.at(:started_at), executions = executions + 1, progress = null,
         progress_note = null, permits = :permits::jsonb -> seq::text, updated_at = windlass.touched(updated_at, :now)
   where seq = any(:seqs::bigint[])
  returning seq, id, type, queue, org_id, priority, timeout_ns, attempts, executions, skipped, lost, max_attempts, max_lost,
            retry_mode, crash_policy, on_unknown, retry_policy, group_id, created_at, codec, payload, headers, permits, history,
            template_id, template_version, queued_at, run_at
), opened as (
  insert into windlass.runs (job_seq, attempt_no, run_id, worker_id, org_id, queue, type, template_id, template_version,
                             claimed_at, started_at, wait_us)
  select seq, executions, :prefix || windlass.in_hex(seq), :worker_id, org_id, queue, type, template_id,
         template_version, (select windlass.at(:now)), (select windlass.at(:started_at)),
         greatest(:now - windlass.micros(greatest(queued_at, run_at)), 0)
    from leased where history is null
)
select 0, <claimed>
  from leased;

-- name: keep_runs
-- For running jobs without a row of their run, of which one is kept after all, as the claim would have written it. `:seqs` is
-- sorted. What was there already under this number stays.
insert into windlass.runs (job_seq, attempt_no, run_id, worker_id, org_id, queue, type, template_id, template_version,
                           claimed_at, started_at, wait_us)
select seq, executions,
       (:prefixes::text[])[width_bucket(seq, :seqs::bigint[])] || windlass.in_hex(seq),
       worker_id, org_id, queue, type, template_id, template_version, claimed_at, started_at,
       greatest(windlass.micros(claimed_at) - windlass.micros(greatest(queued_at, run_at)), 0)
  from windlass.jobs where seq = any(:seqs::bigint[]) and case when claimed_at is not null then state end = 'running'
on conflict do nothing;

-- name: extend
-- Never waits: a row that somebody holds is stepped over and asked for again. The true start of runs that were claimed
-- before their handler began is written with it. `:seqs` is sorted; see `ack`.
with locked as materialized (
  select seq from windlass.jobs where seq = any(:seqs::bigint[]) order by seq for no key update skip locked
), extended as (
  update windlass.jobs
     set lease_expires_at = case when windlass.at(:now + :overtaken_by) < updated_at
                                 then greatest(lease_expires_at, windlass.at(:expires_at)) else windlass.at(:expires_at) end,
         started_at = coalesce(started_at, windlass.at(nullif((:starts::bigint[])[width_bucket(seq, :seqs::bigint[])], 0))),
         progress = case when windlass.at(:now + :overtaken_by) < updated_at and progress is not null then progress
                         else coalesce((:progress::double precision[])[width_bucket(seq, :seqs::bigint[])], progress) end,
         progress_note = case when windlass.at(:now + :overtaken_by) < updated_at and progress_note is not null then progress_note
                              else coalesce((:notes::text[])[width_bucket(seq, :seqs::bigint[])], progress_note) end,
         updated_at = windlass.touched(updated_at, :now)
   where seq = any(array(select seq from locked)) and lease_expires_at > windlass.at(:now)
     and lease_token = (:tokens::text[])[(:which::bigint[])[width_bucket(seq, :seqs::bigint[])]]
  returning seq, windlass.micros(lease_expires_at) as expires_at, cancel_requested_at is not null as wish
), begun as (
  update windlass.runs set started_at = windlass.at((:starts::bigint[])[width_bucket(job_seq, :seqs::bigint[])])
   where job_seq = any(array(select seq from extended)) and status is null and started_at is null
     and (:starts::bigint[])[width_bucket(job_seq, :seqs::bigint[])] > 0
)
select seq, expires_at, wish from extended;

-- name: lapsed
-- Leases that core/eligibility.py: needs_decision leaves to the driver, without locks. Whoever is about to end runs says so
-- before it looks at what they hold: see `hold_claims`.
with nothing as (delete from windlass.barrier where false)
select seq, permits::text, history, lease_token, windlass.micros(claimed_at) from windlass.jobs
 where state = 'running' and queue = any(:queues::text[]) and lease_expires_at <= windlass.at(:now)
   and <plain_loss>
 order by lease_expires_at, seq
 limit :bite;

-- name: expire
-- core/changes.py: Expire, for those of the lapsed that are so still and that nobody else holds. Runs that have no row yet get
-- one; `:seqs` is sorted, `:prefixes` tells by what each of them is known.
with locked as materialized (
  select seq, permits, history, executions, worker_id, org_id, queue, type, template_id, template_version, claimed_at,
         started_at, queued_at, run_at
    from windlass.jobs
   where seq = any(:seqs::bigint[]) and state = 'running' and lease_expires_at <= windlass.at(:now)
     and <plain_loss>
   order by seq for no key update skip locked
), expired as (
  update windlass.jobs
     set state = 'queued', ready = true, run_at = null, lost = least(lost + 1, 9007199254740992), last_token = lease_token, last_outcome = 'expire',
         lease_token = null, lease_expires_at = null, worker_id = null, permits = null,
         updated_at = windlass.touched(updated_at, :now)
   where seq = any(array(select seq from locked))
  returning seq, id, org_id, type, queue, executions, lost
), closed as (
  update windlass.runs set status = 'failed', error = :error, finished_at = windlass.at(:now),
                           started_at = coalesce(started_at, windlass.at(:now))
   where job_seq = any(array(select seq from expired)) and status is null
), kept as (
  insert into windlass.runs (job_seq, attempt_no, run_id, worker_id, org_id, queue, type, template_id, template_version,
                             claimed_at, started_at, wait_us, status, error, finished_at)
  select seq, executions,
         (:prefixes::text[])[width_bucket(seq, :seqs::bigint[])] || windlass.in_hex(seq),
         worker_id, org_id, queue, type, template_id, template_version, claimed_at, coalesce(started_at, windlass.at(:now)),
         greatest(windlass.micros(claimed_at) - windlass.micros(greatest(queued_at, run_at)), 0), 'failed', :error,
         windlass.at(:now)
    from locked where history is not null
  on conflict do nothing
)
select seq, permits::text, id, expired.org_id, expired.type, expired.queue, expired.executions, lost
  from expired join locked using (seq);

-- name: leased_queues
-- Found by jumping through the index.
with recursive names (queue) as (
  (select queue from windlass.jobs where state = 'running' order by queue limit 1)
  union all
  select (select later.queue from windlass.jobs as later where later.state = 'running' and later.queue > names.queue
           order by later.queue limit 1)
    from names where names.queue is not null
)
select queue from names where queue is not null;

-- name: leased_under
-- A token stands in no index: it is looked for among the valid leases of its queues.
select seq from windlass.jobs
 where state = 'running' and queue = any(:queues::text[]) and lease_expires_at > windlass.at(:now)
   and lease_token = :token and worker_id = :worker_id
 order by priority desc, position, created_at, seq
 limit :limit;

-- name: undecided
select jobs.seq, id, jobs.type, jobs.queue, jobs.org_id, priority, windlass.micros(greatest(queued_at, run_at)), timeout_ns, attempts, executions, skipped, lost,
       max_attempts, max_lost, retry_mode, crash_policy, on_unknown, retry_policy, group_id, windlass.micros(created_at), codec,
       payload, headers::text, permits::text, history,
       run_id, lease_token, windlass.micros(jobs.claimed_at), windlass.micros(lease_expires_at)
  from windlass.jobs left join windlass.runs on job_seq = jobs.seq and attempt_no = executions
 where state = 'running' and jobs.queue = any(:queues::text[]) and lease_expires_at <= windlass.at(:now)
   and (run_id is not null or history is not null)
   and (crash_policy = 'fail' or cancel_requested_at is not null
        or (max_lost > 0 and lost + 1 >= max_lost)
        or (max_attempts > 0 and greatest(attempts + 1, executions - skipped) >= max_attempts))
 order by lease_expires_at, jobs.seq
 limit :limit;
