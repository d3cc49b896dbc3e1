-- Permits and parking. core/counters.py: take, give_back. Counting running jobs inside a claim is forbidden.

-- name: limit_keys
select seq, limit_keys from jobs where seq in (select value from json_each(:seqs));

-- name: full_key
-- The first of these keys that has no room.
select limits.key from json_each(:keys) as wanted join limits on limits.key = wanted.value
 where max_used is not null and used + 1 > max_used
 order by wanted.key limit 1;

-- name: take_permits
update limits set used = used + 1
 where key in (select value from json_each(:keys)) and (max_used is null or used + 1 <= max_used);

-- name: free_permits
update limits set used = max(used - :returned, 0) where key = :key;

-- name: park
update jobs set ready = 0, parked_on = :key, updated_at = max(:now, updated_at + 1) where seq = :seq;

-- name: unpark
-- The first waiting job of every queue and type: one alone might stand in a queue that nobody serves. The kinds are found
-- by jumping through the index, so the cost does not grow with the number of jobs that wait.
with recursive kinds (queue, type) as (
  select * from (select queue, type from jobs indexed by jobs_parked where parked_on = :key and state = 'queued'
                  order by queue, type limit 1)
  union all
  select jobs.queue, jobs.type from kinds join jobs on jobs.seq = (
    select seq from jobs as later indexed by jobs_parked
     where parked_on = :key and state = 'queued' and (later.queue, later.type) > (kinds.queue, kinds.type)
     order by later.queue, later.type limit 1)
)
update jobs set ready = 1, parked_on = null, updated_at = max(:now, updated_at + 1)
 where not exists (select 1 from limits where key = :key and max_used is not null and used + 1 > max_used)
   and seq in (
     select (select seq from jobs as waiting indexed by jobs_parked
              where parked_on = :key and state = 'queued' and waiting.queue = kinds.queue and waiting.type = kinds.type
              order by priority desc, position, created_at, seq limit 1)
       from kinds)
returning seq;

-- name: unpark_all
update jobs set ready = 1, parked_on = null, updated_at = max(:now, updated_at + 1)
 where seq in (select seq from jobs indexed by jobs_parked where parked_on = :key and state = 'queued');

-- name: put_limit
insert into limits (key, max_used, used)
values (:key, :max_used, (select count(*) from jobs, json_each(limit_keys) where state = 'running' and value = :key))
on conflict (key) do update set max_used = excluded.max_used;
