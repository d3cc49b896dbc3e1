-- Permits and parking. core/counters.py: take, give_back. Counting running jobs inside a claim is forbidden.

-- name: lock_limits
-- Always in the order of their keys, and before any job: two that need the same rows never wait for each other in a ring.
-- Whoever looks for limits is seen as one who is about to begin or end runs, from before the look: see `hold_runs`.
with nothing as (update windlass.runs set status = status where false)
select key, used, max_used from windlass.limits where key = any(:keys::text[]) order by key for update;

-- name: try_limits
-- For those who hold limits that come later in the order: what somebody else holds is not waited for, and told.
with nothing as (update windlass.runs set status = status where false), free as materialized (
  select key, used, max_used from windlass.limits where key = any(:keys::text[]) order by key for update skip locked
)
select key, free.used, free.max_used, free.used is not null
  from windlass.limits left join free using (key) where key = any(:keys::text[]);

-- name: take_permits
update windlass.limits set used = used + taken.permits
  from unnest(:keys::text[], :permits::bigint[]) as taken (key, permits)
 where limits.key = taken.key and limits.key = any(:keys::text[]);

-- name: free_permits
update windlass.limits set used = greatest(used - 1, 0) where key = any(:keys::text[]);

-- name: park
update windlass.jobs set ready = false, parked_on = (:keys::text[])[width_bucket(seq, :seqs::bigint[])],
                         updated_at = windlass.touched(updated_at, :now)
 where seq = any(:seqs::bigint[]);

-- name: unpark
-- The first waiting job of every queue and type: one alone might stand in a queue that nobody serves. The kinds are found
-- by jumping through the index, so the cost does not grow with the number of jobs that wait.
with recursive kinds (queue, type) as (
  (select queue, type from windlass.jobs where parked_on = :key and state = 'queued' order by queue, type limit 1)
  union all
  select later.queue, later.type from kinds cross join lateral (
    select jobs.queue, jobs.type from windlass.jobs
     where parked_on = :key and state = 'queued' and (jobs.queue, jobs.type) > (kinds.queue, kinds.type)
     order by jobs.queue, jobs.type limit 1) as later
)
update windlass.jobs set ready = true, parked_on = null, updated_at = windlass.touched(updated_at, :now)
 where not exists (select from windlass.limits where key = :key and max_used is not null and used + 1 > max_used)
   and parked_on = :key and state = 'queued'
   and seq = any(array(
     select first.seq from kinds cross join lateral (
       select seq from windlass.jobs
        where parked_on = :key and state = 'queued' and jobs.queue = kinds.queue and jobs.type = kinds.type
        order by priority desc, position, created_at, seq limit 1) as first))
returning seq;

-- name: unpark_all
update windlass.jobs set ready = true, parked_on = null, updated_at = windlass.touched(updated_at, :now)
 where seq = any(array(select seq from windlass.jobs where parked_on = :key and state = 'queued' order by seq for update))
   and parked_on = :key and state = 'queued';

-- name: limits_there
select key from windlass.limits where key = any(:keys::text[]);

-- name: hold_runs
-- Waits for all who are beginning or ending runs, and keeps others from it, so that a new limit counts each of them: those
-- before by what they have stored, those after because they see the limit. Enqueues, long as they may take, are not in it.
lock table windlass.runs in share row exclusive mode;

-- name: begin_hold
savepoint hold;

-- name: be_brief
-- In milliseconds; answers what it was.
select current_setting('lock_timeout'), set_config('lock_timeout', :timeout, true);

-- name: undo_hold
rollback to savepoint hold;

-- name: end_hold
release savepoint hold;

-- name: put_limit
insert into windlass.limits (key, max_used, used)
values (:key, :max_used, (select count(*) from windlass.jobs where state = 'running' and limit_keys ? :key))
on conflict (key) do update set max_used = excluded.max_used;
