-- Maintenance: what a leader does for all.

-- piece: kept
kept as materialized (
  select windlass.at(case :state::text when 'succeeded' then :succeeded::bigint when 'cancelled' then :cancelled::bigint
                                       else :dead::bigint end) as cutoff
)

-- piece: age
(finished_at - windlass.at(case state when 'succeeded' then :succeeded::bigint when 'cancelled' then :cancelled::bigint
                                      else :dead::bigint end))

-- piece: old
coalesce((member.state = 'succeeded' and member.finished_at <= windlass.at(:succeeded))
         or (member.state = 'cancelled' and member.finished_at <= windlass.at(:cancelled))
         or (member.state = 'dead' and member.finished_at <= windlass.at(:dead)), false)

-- piece: open
(waiting.finished_at is null or (waiting.superseded_by is not null and (
   with recursive later (finished_at, next) as (
     select waiting.finished_at, waiting.superseded_by
     union
     select link.finished_at, link.superseded_by from later cross join lateral (
       select finished_at, superseded_by from windlass.jobs where jobs.id = later.next offset 0) as link)
   select true from later where later.finished_at is null limit 1) is not null))

-- piece: needed
(select true from windlass.dependencies cross join lateral (
   select from windlass.jobs as waiting where waiting.seq = job_seq and <open> offset 0) as open
  where parent_id = member.id limit 1) is not null

-- piece: uncounted
(coalesce(member.history is not null and member.state = 'succeeded' and member.finished_at > windlass.at(:watermark::bigint), false)
 or (select true from windlass.runs
      where job_seq = member.seq and runs.finished_at > windlass.at(:watermark::bigint) limit 1) is not null)

-- name: prune_edge
-- How far a bite may look: the last of so many that are old enough, none where there are fewer. Row by row, like `prunable`.
with recursive <kept>, walk (finished_at, seq, place) as (
  (select finished_at, seq, 1 from windlass.jobs
    where state = :state and finished_at is not null and finished_at <= (select cutoff from kept)
      and (finished_at, seq) > (windlass.at(:after_at), :after_seq::bigint)
    order by finished_at, seq limit 1)
  union all
  select next.finished_at, next.seq, place + 1 from walk cross join lateral (
    select finished_at, seq from windlass.jobs
     where state = :state and finished_at is not null and finished_at <= (select cutoff from kept)
       and (finished_at, seq) > (walk.finished_at, walk.seq)
     order by finished_at, seq limit 1) as next
   where place < :visits
)
select windlass.micros(finished_at), seq from walk where place = :visits;

-- name: prunable
-- core/retention.py: the heads of chains that may go and ended in one state, oldest first. A null cutoff keeps for ever. What
-- ended after the watermark is not counted yet and keeps its chain; without a watermark nothing does. So does what jobs need
-- whose chains have not ended. `held` are groups of which it is known that they stay; of the others it is asked once, not for
-- each of their members.
-- The index is walked row by row until there are enough: a bite costs the same however much there is to prune, and whatever
-- the planner believes of it. `limit 1` keeps it from answering the other questions for all jobs at once.
with recursive <kept>, walk (finished_at, seq) as (
  (select finished_at, seq from windlass.jobs
    where state = :state and finished_at is not null and finished_at <= (select cutoff from kept)
      and (finished_at, seq) > (windlass.at(:after_at), :after_seq::bigint)
      and (finished_at, seq) <= (windlass.at(:edge_at), :edge_seq::bigint)
    order by finished_at, seq limit 1)
  union all
  select next.finished_at, next.seq from walk cross join lateral (
    select finished_at, seq from windlass.jobs
     where state = :state and finished_at is not null and finished_at <= (select cutoff from kept)
       and (finished_at, seq) > (walk.finished_at, walk.seq)
       and (finished_at, seq) <= (windlass.at(:edge_at), :edge_seq::bigint)
     order by finished_at, seq limit 1) as next
)
select windlass.micros(head.finished_at), head.seq, group_id from walk cross join lateral (
  select seq, id, state, history, finished_at, group_id, retry_of, superseded_by from windlass.jobs where jobs.seq = walk.seq offset 0) as head
 where superseded_by is null
   and (group_id is null or group_id <> all(:held::text[]))
   and (select true from windlass.dependencies cross join lateral (
          select from windlass.jobs as waiting where waiting.seq = job_seq and <open> offset 0) as open
         where parent_id = head.id limit 1) is null
   and (retry_of is null or (
     with recursive chain (id, retry_of) as (
       select head.id, head.retry_of
       union
       select link.id, link.retry_of from chain join windlass.jobs as link on link.id = chain.retry_of)
     select true from chain cross join lateral (
       select job_seq from windlass.dependencies where parent_id = chain.id offset 0) as edge cross join lateral (
       select from windlass.jobs as waiting where waiting.seq = edge.job_seq and <open> offset 0) as open
      limit 1) is null)
   and (group_id is null or (
     select true from windlass.groups where groups.group_id = head.group_id and remaining > 0 limit 1) is null)
   and (:watermark::bigint is null or (
     (history is null or state <> 'succeeded' or head.finished_at <= windlass.at(:watermark))
     and (select true from windlass.runs where job_seq = head.seq and runs.finished_at > windlass.at(:watermark) limit 1) is null
     and (retry_of is null or (
       with recursive chain (seq, retry_of) as (
         select head.seq, head.retry_of
         union
         select link.seq, link.retry_of from chain join windlass.jobs as link on link.id = chain.retry_of)
       select true from chain cross join lateral (
         select from windlass.runs where job_seq = chain.seq and runs.finished_at > windlass.at(:watermark) offset 0) as late
        limit 1) is null)))
 limit :limit;

-- name: group_verdicts
-- How many members these groups began with, what a bite found of the large ones, and when they have ended.
select group_id, total, kept_by, windlass.micros(finished_at) from windlass.groups where group_id = any(:groups::text[]);

-- name: kept_by_age
-- Of each of these groups the member that keeps it for the longest time, if one does: it has not ended, or not long ago.
select asked.group_id, keeper.seq from unnest(:groups::text[]) as asked (group_id) cross join lateral (
  select seq from windlass.jobs as member
   where member.group_id = asked.group_id and member.group_id is not null and superseded_by is null and not <old>
   order by finished_at is null desc, <age> desc nulls first limit 1) as keeper;

-- name: kept_by_need
-- The same of groups whose members are all old: one that is needed, or whose runs nobody has counted.
select asked.group_id, keeper.seq from unnest(:groups::text[]) as asked (group_id) cross join lateral (
  select seq from windlass.jobs as member
   where member.group_id = asked.group_id and member.group_id is not null
     and (<needed> or <uncounted>)
   limit 1) as keeper;

-- name: keepers
-- Those of these members that keep their group.
select seq from windlass.jobs as member
 where seq = any(:seqs::bigint[]) and ((superseded_by is null and not <old>) or <needed> or <uncounted>);

-- name: remember_groups
-- Comes after all other locks, so nobody is waited for. That nothing keeps a group is not said of one that was brought back
-- since its members were looked at, not even when it has ended again.
update windlass.groups set kept_by = (:found::jsonb ->> group_id)::bigint
 where group_id = any(array(
   select group_id from windlass.groups
    where group_id = any(array(select jsonb_object_keys(:found::jsonb)))
      and ((:found::jsonb ->> group_id)::bigint > 0 or finished_at < windlass.at(-(:found::jsonb ->> group_id)::bigint))
    order by group_id for no key update skip locked));

-- name: doubtful_groups
-- Of the groups of those that these jobs wait for, or have waited for, those of which it was found that nothing keeps them.
-- A later link of a chain has waited for what the nearest link before it has that waited for any: see `edges_before`.
with recursive links (seq, retry_of) as (
  select seq, retry_of from windlass.jobs where seq = any(:seqs::bigint[])
  union
  select jobs.seq, jobs.retry_of from links join windlass.jobs on jobs.id = links.retry_of
   where (select true from windlass.dependencies where job_seq = links.seq limit 1) is null
)
select group_id from windlass.groups
 where kept_by < 0 and group_id = any(array(
   select group_id from links join windlass.dependencies on job_seq = links.seq join windlass.jobs on jobs.id = parent_id));

-- name: doubt_groups
-- Others need these jobs from now on: that nothing keeps their groups is not believed any more.
update windlass.groups set kept_by = null
 where group_id = any(array(
   select group_id from windlass.groups
    where kept_by < 0 and group_id = any(array(select group_id from windlass.jobs where id = any(:ids::text[])))
    order by group_id for no key update));

-- name: chains
-- Every link of the chains that end in these heads.
with recursive doomed (head, seq, retry_of, group_id) as (
  select seq, seq, retry_of, group_id from windlass.jobs where seq = any(:seqs::bigint[])
  union
  select head, jobs.seq, jobs.retry_of, jobs.group_id from windlass.jobs join doomed on jobs.id = doomed.retry_of
)
select head, seq, group_id from doomed;

-- name: lock_ended
-- Those that are ended still and that nobody else holds, whether another took over, and when they ended. Locked as a delete does it: one that
-- a row of somebody else refers to, in a transaction that stays open, would be waited for when it is deleted.
select seq, superseded_by is not null, windlass.micros(finished_at) from windlass.jobs
 where seq = any(:seqs::bigint[]) and finished_at is not null order by seq for update skip locked;

-- name: lock_doomed
-- As `lock_ended` does it, but waiting, in the order of their numbers.
select seq from windlass.jobs where seq = any(:seqs::bigint[]) order by seq for update;

-- name: check_at_once
-- A foreign key may be looked at when the transaction ends, where nobody knows any more which row it was.
set constraints all immediate;

-- name: open_groups
-- Of these groups, whose locks are held, those that wait for members: one may have been brought back. Or that did, and have
-- ended anew since it was read that they ended at these times. Who brings one back
-- counts it; of a large group, of which it was found that nothing keeps it, the members are not all asked for each bite.
select group_id from windlass.groups where group_id = any(:ids::text[]) and remaining > 0
union
select group_id from windlass.jobs
 where group_id = any(:ids::text[]) and finished_at is null
   and group_id not in (select group_id from windlass.groups where group_id = any(:ids::text[]) and kept_by < 0)
union
select asked.group_id from unnest(:ids::text[], :ended::bigint[]) as asked (group_id, ended) cross join lateral (
  select finished_at from windlass.groups where groups.group_id = asked.group_id offset 0) as found
 where found.finished_at is distinct from windlass.at(asked.ended);

-- name: delete_jobs
delete from windlass.jobs where seq = any(:seqs::bigint[]) returning group_id;

-- name: delete_groups
-- The row of a group goes with its last member.
delete from windlass.groups
 where group_id = any(:groups::text[]) and not exists (select from windlass.jobs where jobs.group_id = groups.group_id);

-- name: forget_keys
-- core/uniqueness.py: is_taken. A key that somebody is taking at this moment is left to them.
with over as materialized (
  select scope, key from windlass.idempotency_keys
   where expires_at is not null and expires_at <= windlass.at(:now)
   order by expires_at, scope, key
   limit :limit
     for no key update skip locked
)
delete from windlass.idempotency_keys as held using over where held.scope = over.scope and held.key = over.key
returning held.scope;

-- name: remove_workers
-- core/leadership.py: is_silent
delete from windlass.workers where windlass.micros(last_heartbeat) + :silent_for <= :now returning id;

-- name: lock_usage
-- A roll-up and the late end of a run never pass each other: one of them sees what the other has done.
select pg_advisory_xact_lock(hashtextextended('windlass.meta usage', 0));

-- name: share_usage
select pg_advisory_xact_lock_shared(hashtextextended('windlass.meta usage', 0));

-- name: duty_place
-- How far a duty has come whose next bite goes on from there.
select value from windlass.meta where key = :duty;

-- name: set_duty_place
-- Also that it has come to its end: a worker's role of PostgreSQL may delete nothing here.
insert into windlass.meta (key, value) values (:duty, :place) on conflict (key) do update set value = excluded.value;

-- name: watermark
select value::bigint from windlass.meta where key = 'usage_watermark';

-- name: store_id
select value from windlass.meta where key = 'store_id';

-- name: set_watermark
insert into windlass.meta (key, value) values ('usage_watermark', (:edge::bigint)::text)
on conflict (key) do update set value = excluded.value;

-- name: bite_edge
-- core/usage.py: bite. When the last run of a full bite ended.
select windlass.micros(finished_at) from windlass.runs
 where finished_at is not null and finished_at > windlass.at(:counted) and finished_at <= windlass.at(:until)
 order by finished_at
 limit 1 offset :limit - 1;

-- name: count_ended
select count(*) from windlass.runs
 where finished_at is not null and finished_at > windlass.at(:counted) and finished_at <= windlass.at(:edge);

-- name: roll_up
-- core/usage.py: added
insert into windlass.usage_hourly as hourly (hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select date_trunc('hour', finished_at, 'UTC'), coalesce(org_id, ''), queue, type, status, count(*),
       sum(greatest(windlass.micros(finished_at) - windlass.micros(started_at), 0)), sum(coalesce(wait_us, 0)),
       sum(coalesce(cpu_us, 0)), max(peak_rss)
  from windlass.runs
 where finished_at is not null and finished_at > windlass.at(:counted) and finished_at <= windlass.at(:edge)
 group by 1, 2, 3, 4, 5
on conflict (hour, org_id, queue, type, outcome) do update
   set runs = hourly.runs + excluded.runs, run_us = hourly.run_us + excluded.run_us,
       wait_us = hourly.wait_us + excluded.wait_us, cpu_us = hourly.cpu_us + excluded.cpu_us,
       peak_rss = greatest(hourly.peak_rss, excluded.peak_rss);

-- name: count_late
-- The same for the runs that were closed just now and ended behind the watermark.
insert into windlass.usage_hourly as hourly (hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select date_trunc('hour', runs.finished_at, 'UTC'), coalesce(runs.org_id, ''), runs.queue, runs.type, status, count(*),
       sum(greatest(windlass.micros(runs.finished_at) - windlass.micros(runs.started_at), 0)), sum(coalesce(wait_us, 0)),
       sum(coalesce(cpu_us, 0)), max(peak_rss)
  from windlass.jobs join windlass.runs on job_seq = seq and attempt_no = executions
 where seq = any(:seqs::bigint[]) and runs.finished_at <= windlass.at(:counted)
 group by 1, 2, 3, 4, 5
 order by 1, 2, 3, 4, 5
on conflict (hour, org_id, queue, type, outcome) do update
   set runs = hourly.runs + excluded.runs, run_us = hourly.run_us + excluded.run_us,
       wait_us = hourly.wait_us + excluded.wait_us, cpu_us = hourly.cpu_us + excluded.cpu_us,
       peak_rss = greatest(hourly.peak_rss, excluded.peak_rss);

-- name: batch_edge
-- Of usage_batches, like bite_edge.
select windlass.micros(at) from windlass.usage_batches
 where at > windlass.at(:counted) and at <= windlass.at(:until)
 order by at
 limit 1 offset :limit - 1;

-- name: count_batches
select coalesce(sum(runs), 0)::bigint from windlass.usage_batches where at > windlass.at(:counted) and at <= windlass.at(:edge);

-- name: roll_up_batches
insert into windlass.usage_hourly as hourly (hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select date_trunc('hour', at, 'UTC'), coalesce(org_id, ''), queue, type, outcome, sum(runs), sum(run_us), sum(wait_us),
       sum(cpu_us), max(peak_rss)
  from windlass.usage_batches
 where at > windlass.at(:counted) and at <= windlass.at(:edge)
 group by 1, 2, 3, 4, 5
on conflict (hour, org_id, queue, type, outcome) do update
   set runs = hourly.runs + excluded.runs, run_us = hourly.run_us + excluded.run_us,
       wait_us = hourly.wait_us + excluded.wait_us, cpu_us = hourly.cpu_us + excluded.cpu_us,
       peak_rss = greatest(hourly.peak_rss, excluded.peak_rss);

-- name: drop_batches
delete from windlass.usage_batches where at <= windlass.at(:before);

-- name: all_usage
-- Column order: windlass.types.Usage.
select windlass.micros(hour), org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss from windlass.usage_hourly
 where hour >= windlass.at(:since) order by hour, org_id, queue, type, outcome;
