-- Permits, parking and turns. core/limits.py, core/fairness.py. Counting running jobs inside a claim is forbidden.

-- name: limits_of
-- Column order: windlass.types.Limit
select key, max_used, used, per_second, burst, tokens, refilled_at, wake_at, weight, paused_at, declared
  from limits where key in (select value from json_each(:keys)) order by key;

-- name: woken
-- Limits with a token for those who wait.
select key from limits where wake_at <= :now order by key;

-- name: timed
-- Limits that are looked at again at some time: because of a rate, or because somebody who waits was missed.
select key from limits
 where key in (select value from json_each(:keys)) and (per_second is not null or wake_at is not null) order by key;

-- name: take_permits
-- As a delta. Permits: {key: how many}.
update limits set used = used + taken.value from json_each(:permits) as taken where limits.key = taken.key;

-- name: write_buckets
update limits set tokens = :tokens, refilled_at = :refilled_at, wake_at = :wake_at where key = :key;

-- name: set_wake
update limits set wake_at = :wake_at where key = :key;

-- name: free_permits
update limits set used = max(used - ended.value, 0) from json_each(:permits) as ended where limits.key = ended.key;

-- name: park
update jobs set ready = 0, parked_on = :key, updated_at = max(:now, updated_at + 1) where seq = :seq;

-- name: waited_for
select value from json_each(:keys)
 where exists (select 1 from jobs indexed by jobs_parked where parked_on = value and state = 'queued');

-- name: anybody_waits
-- For any key. Mostly nobody does, and it costs less than to ask of each key.
select parked_on from jobs indexed by jobs_parked where state = 'queued' and parked_on is not null limit 1;

-- name: all_waited_for
-- Found by jumping through the index.
with recursive keys (key) as (
  select (select parked_on from jobs indexed by jobs_parked
           where state = 'queued' and parked_on is not null order by parked_on limit 1)
  union all
  select (select parked_on from jobs indexed by jobs_parked
           where state = 'queued' and parked_on > keys.key order by parked_on limit 1)
    from keys where keys.key is not null
)
select key from keys where key is not null;

-- name: parked_kinds
-- Of which queues and types jobs wait for these keys, and whether they take turns, found by jumping through the index: the
-- cost does not grow with the number of jobs that wait. In two jumps, because a comparison of pairs would walk over all of one queue and type.
with recursive kinds (key, queue, type) as (
  select asked.value, jobs.queue, jobs.type from json_each(:keys) as asked join jobs on jobs.seq = (
    select seq from jobs as first indexed by jobs_parked
     where parked_on = asked.value and state = 'queued' order by first.queue, first.type limit 1)
  union all
  select kinds.key, jobs.queue, jobs.type from kinds join jobs on jobs.seq = coalesce(
    (select seq from jobs as later indexed by jobs_parked
      where parked_on = kinds.key and state = 'queued' and later.queue = kinds.queue and later.type > kinds.type
      order by later.type limit 1),
    (select seq from jobs as later indexed by jobs_parked
      where parked_on = kinds.key and state = 'queued' and later.queue > kinds.queue order by later.queue, later.type limit 1))
)
select key, queue, type, 0 from kinds where exists (
  select 1 from jobs as waiting indexed by jobs_parked
   where parked_on = kinds.key and state = 'queued' and waiting.queue = kinds.queue and waiting.type = kinds.type
     and share is null)
union all
select key, queue, type, 1 from kinds where exists (
  select 1 from jobs as waiting indexed by jobs_parked
   where parked_on = kinds.key and state = 'queued' and waiting.queue = kinds.queue and waiting.type = kinds.type
     and share is not null);

-- name: unpark
-- So many of a kind that takes no turns, the first in dispatch order.
update jobs set ready = 1, parked_on = null, updated_at = max(:now, updated_at + 1)
 where seq in (
   select seq from jobs as waiting indexed by jobs_parked
    where parked_on = :key and state = 'queued' and waiting.queue = :queue and waiting.type = :type and share is null
    order by priority desc, position, created_at, seq limit :room)
returning seq;

-- name: unpark_all
-- Of keys that bound nobody, so many at a time.
update jobs set ready = 1, parked_on = null, updated_at = max(:now, updated_at + 1)
 where seq in (
   select seq from jobs as waiting indexed by jobs_parked
    where parked_on in (select value from json_each(:keys)) and state = 'queued' limit :limit)
returning seq;

-- name: unpark_these
update jobs set ready = 1, parked_on = null, updated_at = max(:now, updated_at + 1)
 where seq in (select value from json_each(:seqs))
returning seq;

-- name: unbarred
-- Keys whose limits were removed while more waited for them than go at a time: a json array.
select value from meta where key = 'unbarred' and value <> '[]';

-- name: leave_unbarred
insert into meta (key, value) values ('unbarred', json_array(:key))
on conflict (key) do update set value = json_insert(meta.value, '$[#]', :key);

-- name: keep_unbarred
update meta set value = :keys where key = 'unbarred';

-- name: parked_shares
-- Whose jobs of a kind wait for a key, found by jumping through the index.
with recursive orgs (share) as (
  select (select share from jobs indexed by jobs_parked
           where parked_on = :key and state = 'queued' and queue = :queue and type = :type and share is not null
           order by share limit 1)
  union all
  select (select later.share from jobs as later indexed by jobs_parked
           where parked_on = :key and state = 'queued' and queue = :queue and type = :type and later.share > orgs.share
           order by later.share limit 1)
    from orgs where orgs.share is not null
)
select share from orgs where share is not null;

-- name: parked_of_share
select seq from jobs indexed by jobs_parked
 where parked_on = :key and state = 'queued' and queue = :queue and type = :type and share = :share
 order by priority desc, position, created_at, seq limit :limit;

-- name: count_in
-- core/limits.py: concerns
update jobs set permits = json_insert(coalesce(permits, '[]'), '$[#]', :key), updated_at = max(:now, updated_at + 1)
 where state = 'running' and not exists (select 1 from json_each(permits) where value = :key)
   and (case :kind when 'global' then 1 when 'queue' then queue = :name when 'type' then type = :name
                   when 'org' then org_id = :name
                   when 'tag' then exists (select 1 from json_each(tags) where value = :name) end
        or exists (select 1 from json_each(limit_keys) where value = :key));

-- name: count_holders
select count(*) from jobs indexed by jobs_leased
 where state = 'running' and exists (select 1 from json_each(permits) where value = :key);

-- name: store_limit
insert into limits (key, max_used, used, per_second, burst, tokens, refilled_at, wake_at, weight, paused_at, declared)
values (:key, :max_used, :used, :per_second, :burst, :tokens, :refilled_at, :wake_at, :weight, :paused_at, :declared)
on conflict (key) do update set max_used = excluded.max_used, used = excluded.used, per_second = excluded.per_second,
  burst = excluded.burst, tokens = excluded.tokens, refilled_at = excluded.refilled_at, wake_at = excluded.wake_at,
  weight = excluded.weight, paused_at = excluded.paused_at, declared = excluded.declared;

-- name: remove_limit
delete from limits where key = :key returning key;

-- name: miscounted
-- Limits whose permits are not those of the jobs that run, or that a running job should hold and does not. Each running job is
-- asked once which keys it holds and which it should: as many limits as there are times as many jobs as run is too much.
with running as materialized (
  select seq, queue, type, org_id, limit_keys, tags, permits from jobs indexed by jobs_leased where state = 'running'
), held as materialized (
  select distinct seq, value as key from running join json_each(permits)
), due as materialized (
  select seq, 'global' as key from running
  union all select seq, 'queue:' || queue from running
  union all select seq, 'type:' || type from running
  union all select seq, 'org:' || org_id from running where org_id is not null
  union all select seq, value from running join json_each(limit_keys)
  union all select seq, 'tag:' || value from running join json_each(tags)
), missed as (
  select seq, key from due where key in (select key from limits) except select seq, key from held
)
select key, used, held from (
  select key, max(used) as used, sum(held) as held, sum(missed) as missed from (
    select key, used, 0 as held, 0 as missed from limits
    union all select key, null, 1, 0 from held
    union all select key, null, 0, 1 from missed)
   group by key)
 where used is not null and (used <> held or missed > 0)
 order by key limit :limit;

-- name: limit_uses
select asked.value,
       (select count(*) from jobs indexed by jobs_parked where parked_on = asked.value and state = 'queued'),
       (select json_group_array(id) from (
          select id from jobs indexed by jobs_leased
           where state = 'running' and exists (select 1 from json_each(permits) where value = asked.value)
           order by seq limit :limit))
  from json_each(:keys) as asked order by asked.value;

-- name: refilling
-- Limits that somebody in these queues waits for, and those that cap what a claim takes, where there is anything to take.
select key, max_used, used, per_second, burst, tokens, refilled_at, wake_at, weight, paused_at, declared from limits
 where (per_second is not null and key in (select value from json_each(:keys)) and exists (
          select 1 from json_each(:queues) as served
           where (limits.key = 'global' or limits.key = 'queue:' || served.value)
             and (exists (select 1 from jobs indexed by jobs_ready
                           where jobs.queue = served.value and state = 'queued' and ready = 1)
                  or exists (select 1 from jobs indexed by jobs_waiting
                              where jobs.queue = served.value and state = 'queued' and ready = 0 and waiting_on = 0
                                and parked_on is null and run_at <= :now))))
    or (wake_at is not null and exists (
          select 1 from json_each(:queues) as served cross join jobs indexed by jobs_parked
           where parked_on = limits.key and state = 'queued' and jobs.queue = served.value));

-- ---------------------------------------------------------------------------------------------------------------- turns

-- name: pick_limited
-- What is asked of limits, and whose turn it counts for, besides the place.
select -priority, position, created_at, seq, limit_keys, type, org_id, tags, share from jobs indexed by jobs_ready
 where queue = :queue and state = 'queued' and ready = 1
   and <wanted>
 order by priority desc, position, created_at, seq
 limit :limit;

-- name: pick_limited_rows
-- The same, with all that a run needs: the columns of `picked`.
select -priority, position, created_at, seq, limit_keys, type, org_id, tags, share,
       <claimed>
  from jobs indexed by jobs_ready
 where queue = :queue and state = 'queued' and ready = 1
   and <wanted>
 order by priority desc, position, created_at, seq
 limit :limit;

-- name: pick_share
select -priority, position, created_at, seq, limit_keys, type, org_id, tags, share from jobs indexed by jobs_fair
 where queue = :queue and share = :share and state = 'queued' and ready = 1
   and <wanted>
 order by priority desc, position, created_at, seq
 limit :limit;

-- name: pick_firsts
-- The first of each of many.
select -priority, position, created_at, seq, limit_keys, jobs.type, org_id, tags, share from json_each(:shares) as asked join jobs
    on seq = (select seq from jobs as first indexed by jobs_fair
               where queue = :queue and share = asked.value and state = 'queued' and ready = 1
                 and (:types is null or first.type in (select value from json_each(:types)))
                 and (not :unhandled or on_unknown = 'dead')
               order by priority desc, position, created_at, seq limit 1);

-- name: pick_firsts_rows
-- The same, with all that a run needs: the columns of `picked`.
select -priority, position, created_at, seq, limit_keys, jobs.type, org_id, tags, share,
       seq, jobs.id, jobs.type, queue, org_id, priority, max(queued_at, coalesce(run_at, 0)), timeout_ns, attempts, executions + 1, skipped, lost, max_attempts, max_lost,
       retry_mode, crash_policy, on_unknown, retry_policy, group_id, created_at, codec, payload, headers, permits, history
  from json_each(:shares) as asked join jobs
    on seq = (select seq from jobs as first indexed by jobs_fair
               where queue = :queue and share = asked.value and state = 'queued' and ready = 1
                 and (:types is null or first.type in (select value from json_each(:types)))
                 and (not :unhandled or on_unknown = 'dead')
               order by priority desc, position, created_at, seq limit 1);

-- name: fair_shares
-- Whose jobs are ready, found by jumping through the index.
with recursive orgs (share) as (
  select (select share from jobs indexed by jobs_fair
           where queue = :queue and state = 'queued' and ready = 1 and share is not null order by share limit 1)
  union all
  select (select later.share from jobs as later indexed by jobs_fair
           where queue = :queue and state = 'queued' and ready = 1 and later.share > orgs.share order by later.share limit 1)
    from orgs where orgs.share is not null
)
select share from orgs where share is not null;

-- name: fair_queues
select name from queues where fairness = 'fair' order by name;

-- name: shares_of
select share, started, finish from shares where queue = :queue;

-- name: weights
select key, weight from limits where key >= 'org:' and key < 'org;' and weight <> 1;

-- name: charge_share
-- core/fairness.py: served, as a delta.
insert into shares (queue, share, started, finish) values (:queue, :share, :clock + :start, :clock + :finish)
on conflict (queue, share) do update
   set started = max(shares.finish, :clock) + :start, finish = max(shares.finish, :clock) + :finish;

-- name: drop_shares
-- core/fairness.py: is_past
delete from shares where finish <= (select max(started) from shares as latest where latest.queue = shares.queue);

-- name: ready_level
-- The highest priority below this one that a ready job of a queue has.
select priority from jobs indexed by jobs_ready
 where queue = :queue and state = 'queued' and ready = 1 and priority < :priority order by priority desc limit 1;

-- name: ready_edge
-- How far a bite may look among the ready jobs of a queue that have one priority, from a place on: the last of so many, none
-- where there are fewer.
select position, created_at, seq from jobs indexed by jobs_ready
 where queue = :queue and state = 'queued' and ready = 1 and priority = :priority
   and (position, created_at, seq) > (:position, :created_at, :after)
 order by position, created_at, seq limit 1 offset :visits - 1;

-- name: ready_with
-- Of the same those with a turn, or without one.
select position, created_at, seq from (
  select position, created_at, seq, share from jobs indexed by jobs_ready
   where queue = :queue and state = 'queued' and ready = 1 and priority = :priority
     and (position, created_at, seq) > (:position, :created_at, :after)
   order by position, created_at, seq limit :visits)
 where (share is not null) = :shared
 order by position, created_at, seq;

-- name: waiting_edge
-- The same of those that wait for their time.
select run_at, seq from jobs indexed by jobs_waiting
 where queue = :queue and state = 'queued' and ready = 0 and waiting_on = 0 and parked_on is null
   and (run_at, seq) > (:run_at, :after)
 order by run_at, seq limit 1 offset :visits - 1;

-- name: waiting_with
select run_at, seq from (
  select run_at, seq, share from jobs indexed by jobs_waiting
   where queue = :queue and state = 'queued' and ready = 0 and waiting_on = 0 and parked_on is null
     and (run_at, seq) > (:run_at, :after)
   order by run_at, seq limit :visits)
 where (share is not null) = :shared
 order by run_at, seq;

-- name: blocked_edge
-- The same of those that wait for others.
select seq from jobs indexed by jobs_blocked
 where queue = :queue and state = 'queued' and waiting_on > 0 and seq > :after
 order by seq limit 1 offset :visits - 1;

-- name: blocked_with
select seq from (
  select seq, share from jobs indexed by jobs_blocked
   where queue = :queue and state = 'queued' and waiting_on > 0 and seq > :after
   order by seq limit :visits)
 where (share is not null) = :shared
 order by seq;

-- name: unshared_parked
select seq from jobs indexed by jobs_parked
 where parked_on = :key and state = 'queued' and queue = :queue and type = :type and share is null limit :limit;

-- name: running_with
-- They may come back.
select seq from jobs indexed by jobs_leased where queue = :queue and state = 'running' and (share is not null) = :shared limit :limit;

-- name: share_these
update jobs set share = case when org_id is null then '' else '=' || org_id end, updated_at = max(:now, updated_at + 1)
 where seq in (select value from json_each(:seqs))
returning seq;

-- name: turning
-- Fair queues of whose jobs some have no turn yet.
select name, turning from queues
 where name in (select value from json_each(:queues)) and fairness = 'fair' and turning is not null order by name;

-- name: set_turning
update queues set turning = :place where name = :queue;

-- name: shared_queues
-- Where ready jobs have turns, found by jumping through the index.
with recursive names (queue) as (
  select (select queue from jobs indexed by jobs_fair
           where state = 'queued' and ready = 1 and share is not null order by queue limit 1)
  union all
  select (select later.queue from jobs as later indexed by jobs_fair
           where state = 'queued' and ready = 1 and share is not null and later.queue > names.queue order by later.queue limit 1)
    from names where names.queue is not null
)
select queue from names where queue is not null;

-- name: turning_strict
-- Strict queues of whose jobs some still have a turn.
select name, turning from queues where fairness = 'strict' and turning is not null order by name;

-- name: shared_parked
-- Any share is at least empty: said so, those without one are not walked over.
select seq from jobs indexed by jobs_parked
 where parked_on = :key and state = 'queued' and queue = :queue and type = :type and share >= '' limit :limit;

-- name: shared_ready
select seq from jobs indexed by jobs_fair
 where queue = :queue and state = 'queued' and ready = 1 and share is not null limit :limit;

-- name: unshare_these
-- Of a queue that takes no turns any more.
update jobs set share = null, updated_at = max(:now, updated_at + 1) where seq in (select value from json_each(:seqs))
returning seq;

-- name: age
-- What is ready, or would be if there were a permit.
update jobs set priority = priority + 1, aged_at = :now, updated_at = max(:now, updated_at + 1)
 where seq in (
   select seq from (
     select * from (
       select seq, priority, position, created_at from jobs indexed by jobs_ready
        where queue = :queue and state = 'queued' and ready = 1 and priority < :age_to
          and max(queued_at, coalesce(run_at, 0), coalesce(aged_at, 0)) <= :before
        order by priority desc, position, created_at, seq limit :limit)
     union all
     select seq, priority, position, created_at from jobs indexed by jobs_parked
      where queue = :queue and state = 'queued' and parked_on is not null and priority < :age_to
        and max(queued_at, coalesce(run_at, 0), coalesce(aged_at, 0)) <= :before)
    order by priority desc, position, created_at, seq limit :limit)
returning seq;

-- name: ageing_queues
select name, age_after, age_to from queues where age_after is not null order by name;
