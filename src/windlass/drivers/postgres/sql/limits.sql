-- Permits, parking and turns. core/limits.py, core/fairness.py. Counting running jobs inside a claim is forbidden.

-- name: limits_of
-- Column order: windlass.types.Limit
select key, max_used, used, per_second, burst, tokens, windlass.micros(refilled_at), windlass.micros(wake_at), weight,
       windlass.micros(paused_at), declared
  from windlass.limits where key = any(:keys::text[]) order by key;

-- name: lock_limits
-- Always in the order of their keys, and before any job: two that need the same rows never wait for each other in a ring.
-- Whoever looks for limits is seen as one who is about to begin or end runs, from before the look: see `hold_claims`.
with nothing as (delete from windlass.barrier where false)
select key, max_used, used, per_second, burst, tokens, windlass.micros(refilled_at), windlass.micros(wake_at), weight,
       windlass.micros(paused_at), declared
  from windlass.limits where key = any(:keys::text[]) order by key for no key update;

-- name: hold_limits
-- The same for one who need not know what they say.
with nothing as (delete from windlass.barrier where false)
select key from windlass.limits where key = any(:keys::text[]) order by key for no key update;

-- name: try_limits
-- For those who hold limits that come later in the order: what somebody else holds is not waited for, and told.
with nothing as (delete from windlass.barrier where false), free as materialized (
  select key, max_used, used, per_second, burst, tokens, windlass.micros(refilled_at) as refilled_at,
         windlass.micros(wake_at) as wake_at, weight, windlass.micros(paused_at) as paused_at, declared
    from windlass.limits where key = any(:keys::text[]) order by key for no key update skip locked
)
select key, free.max_used, free.used, free.per_second, free.burst, free.tokens, free.refilled_at, free.wake_at, free.weight,
       free.paused_at, free.declared, free.used is not null
  from windlass.limits left join free using (key) where key = any(:keys::text[]);

-- name: woken
-- Limits with a token for those who wait.
select key from windlass.limits where wake_at <= windlass.at(:now) order by key;

-- name: timed
-- Limits that are looked at again at some time: because of a rate, or because somebody who waits was missed.
select key from windlass.limits where key = any(:keys::text[]) and (per_second is not null or wake_at is not null) order by key;

-- name: take_permits
-- As a delta. Who has how many is looked up in an object, which is a search by halves, and not joined: a join of the batch with
-- its own rows can be done by comparing each with each, and was.
update windlass.limits set used = used + (:permits::jsonb ->> key)::bigint where key = any(:keys::text[]);

-- name: write_buckets
-- What became of them under the lock.
update windlass.limits set tokens = left_over.tokens, refilled_at = windlass.at(left_over.refilled_at),
                           wake_at = windlass.at(left_over.wake_at)
  from unnest(:keys::text[], :tokens::double precision[], :refilled_at::bigint[], :wake_at::bigint[])
       as left_over (key, tokens, refilled_at, wake_at)
 where limits.key = left_over.key and limits.key = any(:keys::text[]);

-- name: set_wakes
update windlass.limits set wake_at = windlass.at(next.wake_at)
  from unnest(:keys::text[], :wake_at::bigint[]) as next (key, wake_at)
 where limits.key = next.key and limits.key = any(:keys::text[]);

-- name: free_permits
-- Answers those that are looked at again at some time, like `timed`.
with freed as (
  update windlass.limits set used = greatest(used - (:permits::jsonb ->> key)::bigint, 0) where key = any(:keys::text[])
  returning key, per_second, wake_at
)
select key from freed where per_second is not null or wake_at is not null order by key;

-- name: park
update windlass.jobs set ready = false, parked_on = :places::jsonb ->> seq::text, updated_at = windlass.touched(updated_at, :now)
 where seq = any(:seqs::bigint[]);

-- name: waited_for
select key from unnest(:keys::text[]) as asked (key)
 where exists (select from windlass.jobs where parked_on = asked.key and state = 'queued');

-- name: anybody_waits
-- For any key. Mostly nobody does, and it costs less than to ask of each key; who holds a limit keeps others from beginning to
-- wait for it. Said so that it is the first of the index.
select parked_on from windlass.jobs where state = 'queued' and parked_on is not null order by parked_on limit 1;

-- name: all_waited_for
-- Found by jumping through the index.
with recursive keys (key) as (
  (select parked_on from windlass.jobs where state = 'queued' and parked_on is not null order by parked_on limit 1)
  union all
  select (select later.parked_on from windlass.jobs as later where later.state = 'queued' and later.parked_on > keys.key
           order by later.parked_on limit 1)
    from keys where keys.key is not null
)
select key from keys where key is not null;

-- name: parked_kinds
-- Of which queues and types jobs wait for these keys, and whether they take turns, found by jumping through the index: the
-- cost does not grow with the number of jobs that wait.
with recursive kinds (key, queue, type) as (
  select asked.key, first.queue, first.type from unnest(:keys::text[]) as asked (key) cross join lateral (
    select jobs.queue, jobs.type from windlass.jobs where parked_on = asked.key and state = 'queued'
     order by jobs.queue, jobs.type limit 1) as first
  union all
  select kinds.key, later.queue, later.type from kinds cross join lateral (
    select jobs.queue, jobs.type from windlass.jobs
     where parked_on = kinds.key and state = 'queued' and (jobs.queue, jobs.type) > (kinds.queue, kinds.type)
     order by jobs.queue, jobs.type limit 1) as later
)
select key, queue, type, turns from kinds cross join (values (false), (true)) as either (turns)
 where case when turns then (
         select true from windlass.jobs
          where parked_on = kinds.key and state = 'queued' and jobs.queue = kinds.queue and jobs.type = kinds.type
            and share is not null order by share limit 1)
       else (
         select true from windlass.jobs
          where parked_on = kinds.key and state = 'queued' and jobs.queue = kinds.queue and jobs.type = kinds.type
            and share is null order by share limit 1) end;

-- name: unpark
-- So many of each kind that takes no turns, the first in dispatch order. Answers the place of the kind of each. What somebody
-- holds is passed over: it may be a caller, who takes as long as he likes.
with first as materialized (
  select first.seq, asked.place
    from unnest(:keys::text[], :queues::text[], :types::text[], :rooms::bigint[]) with ordinality
         as asked (key, queue, type, room, place)
   cross join lateral (
    select seq from windlass.jobs
     where parked_on = asked.key and state = 'queued' and jobs.queue = asked.queue and jobs.type = asked.type and share is null
     order by share, priority desc, position, created_at, seq limit asked.room
       for no key update skip locked) as first
), through as (
  update windlass.jobs set ready = true, parked_on = null, updated_at = windlass.touched(updated_at, :now)
   where seq = any(array(select seq from first))
)
select place from first;

-- name: unpark_all
-- Of keys that bound nobody, so many at a time.
update windlass.jobs set ready = true, parked_on = null, updated_at = windlass.touched(updated_at, :now)
 where seq = any(array(
   select seq from windlass.jobs where parked_on = any(:keys::text[]) and state = 'queued' limit :limit for no key update skip locked))
returning seq;

-- name: unpark_these
update windlass.jobs set ready = true, parked_on = null, updated_at = windlass.touched(updated_at, :now)
 where seq = any(array(
   select seq from windlass.jobs where seq = any(:seqs::bigint[]) and case when parked_on is not null then state end = 'queued'
    order by seq for no key update skip locked))
returning seq;

-- name: unbarred
-- Keys whose limits were removed while more waited for them than go at a time: a json array. Who removes one is not waited for.
select value from windlass.meta where key = 'unbarred' and value <> '[]' for no key update skip locked;

-- name: leave_unbarred
insert into windlass.meta (key, value) values ('unbarred', jsonb_build_array(:key::text)::text)
on conflict (key) do update set value = (meta.value::jsonb || jsonb_build_array(:key::text))::text;

-- name: keep_unbarred
update windlass.meta set value = :keys where key = 'unbarred';

-- name: parked_shares
-- Whose jobs of a kind wait for a key, found by jumping through the index.
with recursive orgs (share) as (
  (select share from windlass.jobs
    where parked_on = :key and state = 'queued' and queue = :queue and type = :type and share is not null
    order by share limit 1)
  union all
  select (select later.share from windlass.jobs as later
           where later.parked_on = :key and later.state = 'queued' and later.queue = :queue and later.type = :type
             and later.share > orgs.share
           order by later.share limit 1)
    from orgs where orgs.share is not null
)
select share from orgs where share is not null;

-- name: parked_firsts
-- So many of the first of each org.
select asked.share, found.seq from unnest(:shares::text[], :counts::bigint[]) as asked (share, count) cross join lateral (
  select seq from windlass.jobs
   where parked_on = :key and state = 'queued' and queue = :queue and type = :type and jobs.share = asked.share
   order by priority desc, position, created_at, seq
   limit asked.count) as found;

-- name: limits_there
select key from windlass.limits where key = any(:keys::text[]);

-- name: hold_claims
-- Waits for all who are beginning or ending runs, and keeps others from it, so that a new limit counts each of them: those
-- before by what they have stored, those after because they see the limit. Each of them has a lock on this table, which holds
-- nothing, from before it looks at anything. A table of its own, because a vacuum of `runs`, which on a busy store goes
-- on most of the time, would be waited for too. A plain success is not in it: it touches its own row only, under its lock.
lock table windlass.barrier in share row exclusive mode;

-- name: begin_hold
savepoint hold;

-- name: be_brief
-- In milliseconds; answers what it was.
select current_setting('lock_timeout'), set_config('lock_timeout', :timeout, true);

-- name: undo_hold
rollback to savepoint hold;

-- name: end_hold
release savepoint hold;

-- name: count_in
-- core/limits.py: concerns
update windlass.jobs set permits = coalesce(permits, '[]') || to_jsonb(:key::text), updated_at = windlass.touched(updated_at, :now)
 where seq = any(array(
   select seq from windlass.jobs
    where state = 'running' and not coalesce(permits ? :key, false)
      and (case :kind when 'global' then true when 'queue' then queue = :name when 'type' then type = :name
                      when 'org' then org_id = :name when 'tag' then tags ? :name end
           or limit_keys ? :key)
    order by seq for no key update));

-- name: count_holders
select count(*) from windlass.jobs where state = 'running' and permits ? :key;

-- name: store_limit
insert into windlass.limits (key, max_used, used, per_second, burst, tokens, refilled_at, wake_at, weight, paused_at, declared)
values (:key, :max_used, :used, :per_second, :burst, :tokens, windlass.at(:refilled_at::bigint), windlass.at(:wake_at::bigint),
        :weight, windlass.at(:paused_at::bigint), :declared)
on conflict (key) do update set max_used = excluded.max_used, used = excluded.used, per_second = excluded.per_second,
  burst = excluded.burst, tokens = excluded.tokens, refilled_at = excluded.refilled_at, wake_at = excluded.wake_at,
  weight = excluded.weight, paused_at = excluded.paused_at, declared = excluded.declared;

-- name: remove_limit
delete from windlass.limits where key = :key returning key;

-- name: miscounted
-- Limits whose permits are not those of the jobs that run, or that a running job should hold and does not. Each running job is
-- asked once which keys it holds and which it should: as many limits as there are times as many jobs as run is too much.
-- Grouped and not joined, so that it stays so whatever the planner believes.
with running as materialized (
  select seq, queue, type, org_id, limit_keys, tags, permits from windlass.jobs where state = 'running'
), held as materialized (
  select distinct seq, key from running cross join lateral jsonb_array_elements_text(permits) as key
), due as materialized (
  select seq, key from running cross join lateral (
    select unnest(array['global', 'queue:' || queue, 'type:' || type, 'org:' || org_id])
    union all select jsonb_array_elements_text(limit_keys)
    union all select 'tag:' || tag from jsonb_array_elements_text(tags) as tag) as keys (key)
   where key is not null
), missed as materialized (
  select seq, key from due except select seq, key from held
)
select key, used, held from (
  select key, max(used) as used, sum(held) as held, sum(missed) as missed from (
    select key, used, 0 as held, 0 as missed from windlass.limits
    union all select key, null, 1, 0 from held
    union all select key, null, 0, 1 from missed) as every
   group by key) as counted
 where used is not null and (used <> held or missed > 0)
 order by key limit :limit;

-- name: limit_uses
select asked.key,
       (select count(*) from windlass.jobs where parked_on = asked.key and state = 'queued'),
       (select coalesce(jsonb_agg(id order by seq), '[]') from (
          select id, seq from windlass.jobs where state = 'running' and permits ? asked.key order by seq limit :limit) as first)::text
  from unnest(:keys::text[]) as asked (key) order by asked.key collate "C";

-- name: refilling
-- Limits that somebody in these queues waits for, and those that cap what a claim takes, where there is anything to take.
select key, max_used, used, per_second, burst, tokens, windlass.micros(refilled_at), windlass.micros(wake_at), weight,
       windlass.micros(paused_at), declared
  from windlass.limits
 where (per_second is not null and key = any(:keys::text[]) and exists (
          select from unnest(:queues::text[]) as served (queue)
           where (limits.key = 'global' or limits.key = 'queue:' || served.queue)
             and coalesce(
               (select true from windlass.jobs where jobs.queue = served.queue and state = 'queued' and ready
                 order by priority desc limit 1),
               (select true from windlass.jobs
                 where jobs.queue = served.queue and state = 'queued' and not ready and waiting_on = 0 and parked_on is null
                   and run_at <= windlass.at(:now) order by run_at limit 1), false)))
    or (wake_at is not null and exists (
          select from unnest(:queues::text[]) as served (queue) cross join lateral (
            select true from windlass.jobs
             where parked_on = limits.key and state = 'queued' and jobs.queue = served.queue order by jobs.type limit 1) as waits));

-- ---------------------------------------------------------------------------------------------------------------- turns

-- name: pick_limited
-- The one total order (core/eligibility.py: dispatch_order) over one queue, without locks, with what is asked of limits;
-- `passed` are jobs that others hold.
select -priority::bigint, position, windlass.micros(created_at), seq, limit_keys::text, type, org_id, tags::text, share from windlass.jobs
 where queue = :queue and state = 'queued' and ready
   and <wanted>
   and seq <> all(:passed::bigint[])
 order by priority desc, position, created_at, seq
 limit :limit;

-- name: pick_shares
-- So many of the first of each org.
select found.* from unnest(:shares::text[], :counts::bigint[]) as asked (share, count) cross join lateral (
  select -priority::bigint, position, windlass.micros(created_at), seq, limit_keys::text, type, org_id, tags::text, jobs.share
    from windlass.jobs
   where queue = :queue and jobs.share = asked.share and state = 'queued' and ready
     and <wanted>
     and seq <> all(:passed::bigint[])
   order by priority desc, position, created_at, seq
   limit asked.count) as found;

-- name: fair_shares
-- Whose jobs are ready, found by jumping through the index.
with recursive orgs (share) as (
  (select share from windlass.jobs where queue = :queue and state = 'queued' and ready and share is not null
    order by share limit 1)
  union all
  select (select later.share from windlass.jobs as later
           where later.queue = :queue and later.state = 'queued' and later.ready and later.share > orgs.share
           order by later.share limit 1)
    from orgs where orgs.share is not null
)
select share from orgs where share is not null;

-- name: fair_queues
select name from windlass.queues where fairness = 'fair' order by name;

-- name: shares_of
select share, started, finish from windlass.shares where queue = :queue;

-- name: weights
select key, weight from windlass.limits where key >= 'org:' and key < 'org;' and weight <> 1;


-- name: charge_shares
-- core/fairness.py: served, as a delta. Two who charge the same orgs do it in the order in which they are given.
insert into windlass.shares (queue, share, started, finish)
select :queue, share, :clock::double precision + start, :clock::double precision + finish
  from unnest(:shares::text[], :starts::double precision[], :finishes::double precision[]) with ordinality
       as charged (share, start, finish, place)
 order by place
on conflict (queue, share) do update
   set started = greatest(shares.finish, :clock::double precision) + (:later::jsonb -> excluded.share ->> 0)::double precision,
       finish = greatest(shares.finish, :clock::double precision) + (:later::jsonb -> excluded.share ->> 1)::double precision;

-- name: drop_shares
-- core/fairness.py: is_past
delete from windlass.shares where finish <= (select max(started) from windlass.shares as latest where latest.queue = shares.queue);

-- name: ready_level
-- The highest priority below this one that a ready job of a queue has.
select priority from windlass.jobs
 where queue = :queue and state = 'queued' and ready and priority < :priority::bigint order by priority desc limit 1;

-- name: ready_edge
-- How far a bite may look among the ready jobs of a queue that have one priority, from a place on: the last of so many, none
-- where there are fewer.
select position, windlass.micros(created_at), seq from windlass.jobs
 where queue = :queue and state = 'queued' and ready and priority = :priority::bigint
   and (position, created_at, seq) > (:position::bigint, windlass.at(:created_at), :after::bigint)
 order by position, created_at, seq limit 1 offset :visits - 1;

-- name: ready_with
-- Of the same those with a turn, or without one.
select position, windlass.micros(created_at), seq from (
  select position, created_at, seq, share from windlass.jobs
   where queue = :queue and state = 'queued' and ready and priority = :priority::bigint
     and (position, created_at, seq) > (:position::bigint, windlass.at(:created_at), :after::bigint)
   order by position, created_at, seq limit :visits) as visited
 where (share is not null) = :shared
 order by position, created_at, seq;

-- name: waiting_edge
-- The same of those that wait for their time.
select windlass.micros(run_at), seq from windlass.jobs
 where queue = :queue and state = 'queued' and not ready and waiting_on = 0 and parked_on is null
   and (run_at, seq) > (windlass.at(:run_at), :after::bigint)
 order by run_at, seq limit 1 offset :visits - 1;

-- name: waiting_with
select windlass.micros(run_at), seq from (
  select run_at, seq, share from windlass.jobs
   where queue = :queue and state = 'queued' and not ready and waiting_on = 0 and parked_on is null
     and (run_at, seq) > (windlass.at(:run_at), :after::bigint)
   order by run_at, seq limit :visits) as visited
 where (share is not null) = :shared
 order by run_at, seq;

-- name: blocked_edge
-- The same of those that wait for others.
select seq from windlass.jobs
 where queue = :queue and state = 'queued' and waiting_on > 0 and seq > :after
 order by seq limit 1 offset :visits - 1;

-- name: blocked_with
select seq from (
  select seq, share from windlass.jobs
   where queue = :queue and state = 'queued' and waiting_on > 0 and seq > :after
   order by seq limit :visits) as visited
 where (share is not null) = :shared
 order by seq;

-- name: unshared_parked
select seq from windlass.jobs
 where parked_on = :key and state = 'queued' and queue = :queue and type = :type and share is null limit :limit;

-- name: running_with
-- They may come back.
select seq from windlass.jobs where queue = :queue and state = 'running' and (share is not null) = :shared limit :limit;

-- name: share_these
-- What somebody holds is passed over: who holds a job may wait for a limit that is held by one who waits for a job of ours. It
-- is adopted later.
update windlass.jobs set share = case when org_id is null then '' else '=' || org_id end,
                         updated_at = windlass.touched(updated_at, :now)
 where seq = any(array(
   select seq from windlass.jobs
    where seq = any(:seqs::bigint[]) and share is null and case when true then state end in ('queued', 'running')
    order by seq for no key update skip locked))
returning seq;

-- name: turning
-- Fair queues of whose jobs some have no turn yet; they are held. Who changes a queue holds it before any limit, so that whoever
-- holds limits does not wait for it.
select name, turning from windlass.queues
 where name = any(:queues::text[]) and fairness = 'fair' and turning is not null order by name for no key update skip locked;

-- name: set_turning
update windlass.queues set turning = :place where name = :queue;

-- name: shared_queues
-- Where ready jobs have turns, found by jumping through the index.
with recursive names (queue) as (
  (select queue::text collate "C" from windlass.jobs where state = 'queued' and ready and share is not null order by queue limit 1)
  union all
  select (select later.queue::text collate "C" from windlass.jobs as later
           where later.state = 'queued' and later.ready and later.share is not null and later.queue > names.queue
           order by later.queue limit 1)
    from names where names.queue is not null
)
select queue from names where queue is not null;

-- name: turning_strict
-- Strict queues of whose jobs some still have a turn; they are held, as those of `turning` are.
select name, turning from windlass.queues
 where fairness = 'strict' and turning is not null order by name for no key update skip locked;

-- name: shared_parked
select seq from windlass.jobs
 where parked_on = :key and state = 'queued' and queue = :queue and type = :type and share is not null limit :limit;

-- name: shared_ready
select seq from windlass.jobs where queue = :queue and state = 'queued' and ready and share is not null limit :limit;

-- name: unshare_these
-- Of a queue that takes no turns any more. What somebody holds is passed over, as in `share_these`.
update windlass.jobs set share = null, updated_at = windlass.touched(updated_at, :now)
 where seq = any(array(
   select seq from windlass.jobs
    where seq = any(:seqs::bigint[]) and case when share is not null then state end in ('queued', 'running')
    order by seq for no key update skip locked))
returning seq;

-- name: age
-- What is ready, or would be if there were a permit.
update windlass.jobs set priority = priority + 1, aged_at = windlass.at(:now), updated_at = windlass.touched(updated_at, :now)
 where seq = any(array(
   select seq from windlass.jobs
    where seq = any(array(
      select seq from (
        (select seq, priority, position, created_at from windlass.jobs
          where queue = :queue and state = 'queued' and ready and priority < :age_to
            and greatest(queued_at, run_at, aged_at) <= windlass.at(:before)
          order by priority desc, position, created_at, seq limit :limit)
        union all
        select seq, priority, position, created_at from windlass.jobs
         where queue = :queue and state = 'queued' and parked_on is not null and priority < :age_to
           and greatest(queued_at, run_at, aged_at) <= windlass.at(:before)) as old
       order by priority desc, position, created_at, seq limit :limit))
      and case when ready or parked_on is not null then state end = 'queued'
    order by seq
      for no key update skip locked))
returning seq;

-- name: ageing_queues
select name, age_after, age_to from windlass.queues where age_after is not null order by name;
