-- Maintenance: what a leader does for all.

-- piece: cutoff
case :state when 'succeeded' then :succeeded when 'cancelled' then :cancelled else :dead end

-- piece: age
(finished_at - case state when 'succeeded' then :succeeded when 'cancelled' then :cancelled else :dead end)

-- piece: old
coalesce((member.state = 'succeeded' and member.finished_at <= :succeeded)
         or (member.state = 'cancelled' and member.finished_at <= :cancelled)
         or (member.state = 'dead' and member.finished_at <= :dead), 0)

-- piece: open
(waiting.finished_at is null or (waiting.superseded_by is not null and exists (
   with recursive later (finished_at, next) as (
     select waiting.finished_at, waiting.superseded_by
     union
     select link.finished_at, link.superseded_by from later join jobs as link on link.id = later.next)
   select 1 from later where later.finished_at is null)))

-- piece: needed
exists (select 1 from dependencies join jobs as waiting on waiting.seq = job_seq
         where parent_id = member.id and <open>)

-- piece: uncounted
((member.history is not null and member.state = 'succeeded' and member.finished_at > :watermark)
 or exists (select 1 from runs where job_seq = member.seq and runs.finished_at > :watermark))

-- name: prune_edge
-- How far a bite may look: the last of so many that are old enough, none where there are fewer.
select finished_at, seq from jobs indexed by jobs_finished
 where finished_at is not null and state = :state and finished_at <= <cutoff>
   and (finished_at, seq) > (:after_at, :after_seq)
 order by finished_at, seq
 limit 1 offset :visits - 1;

-- name: prunable
-- core/retention.py: the heads of chains that may go and ended in one state, oldest first, in the order of the index: a
-- bite costs the same however much there is to prune. A null cutoff keeps for ever. What ended after the watermark is not
-- counted yet and keeps its chain; without a watermark nothing does. So does what jobs need whose chains have not ended.
-- `held` are groups of which it is known that they stay; of the others it is asked once, not for each of their members.
select finished_at, seq, group_id from jobs as head indexed by jobs_finished
 where finished_at is not null and superseded_by is null
   and state = :state
   and finished_at <= <cutoff>
   and (finished_at, seq) > (:after_at, :after_seq) and (finished_at, seq) <= (:edge_at, :edge_seq)
   and (group_id is null or group_id not in (select value from json_each(:held)))
   and not exists (select 1 from dependencies join jobs as waiting on waiting.seq = job_seq
                    where parent_id = head.id and <open>)
   and (retry_of is null or not exists (
     with recursive chain (id, retry_of) as (
       select head.id, head.retry_of
       union
       select link.id, link.retry_of from chain join jobs as link on link.id = chain.retry_of)
     select 1 from chain join dependencies on parent_id = chain.id join jobs as waiting on waiting.seq = job_seq
      where <open>))
   and not exists (select 1 from groups where groups.group_id = head.group_id and remaining > 0)
   and (history is null or state <> 'succeeded' or finished_at <= coalesce(:watermark, finished_at))
   and not exists (select 1 from runs where job_seq = head.seq and runs.finished_at > :watermark)
   and (retry_of is null or :watermark is null or not exists (
     with recursive chain (seq, retry_of) as (
       select head.seq, head.retry_of
       union
       select link.seq, link.retry_of from chain join jobs as link on link.id = chain.retry_of)
     select 1 from chain join runs on job_seq = chain.seq where runs.finished_at > :watermark))
 order by finished_at, seq
 limit :limit;

-- name: group_verdicts
-- How many members these groups began with, what a bite found of the large ones, and when they have ended.
select group_id, total, kept_by, finished_at from groups where group_id in (select value from json_each(:groups));

-- name: kept_by_age
-- Of each of these groups the member that keeps it for the longest time, if one does: it has not ended, or not long ago.
select asked.value, (
    select seq from jobs as member
     where member.group_id = asked.value and superseded_by is null and not <old>
     order by finished_at is not null, <age> is not null, <age> desc
     limit 1) as seq
  from json_each(:groups) as asked where seq is not null;

-- name: kept_by_need
-- The same of groups whose members are all old: one that is needed, or whose runs nobody has counted.
select asked.value, (
    select seq from jobs as member
     where member.group_id = asked.value and (<needed> or <uncounted>)
     limit 1) as seq
  from json_each(:groups) as asked where seq is not null;

-- name: keepers
-- Those of these members that keep their group.
select seq from jobs as member
 where seq in (select value from json_each(:seqs))
   and ((superseded_by is null and not <old>) or <needed> or <uncounted>);

-- name: remember_groups
update groups set kept_by = found.value from json_each(:found) as found where groups.group_id = found.key;

-- name: doubt_groups
-- Others need these jobs from now on: that nothing keeps their groups is not believed any more.
update groups set kept_by = null
 where kept_by < 0 and group_id in (select group_id from jobs where id in (select value from json_each(:ids)));

-- name: chains
-- Every link of the chains that end in these heads.
with recursive doomed (head, seq, retry_of, group_id) as (
  select seq, seq, retry_of, group_id from jobs where seq in (select value from json_each(:seqs))
  union
  select head, jobs.seq, jobs.retry_of, jobs.group_id from jobs join doomed on jobs.id = doomed.retry_of
)
select head, seq, group_id from doomed;

-- name: delete_jobs
delete from jobs where seq in (select value from json_each(:seqs)) returning group_id;

-- name: foreign_keys
-- The columns of every foreign key, key by key, and whether it may refuse as late as the commit: it does not say what becomes
-- of its rows, or sets them to a default which is not null, and so hardly anybody's. One that names no columns means a
-- primary key; one may lead to a view, which is nobody's, and may be one that cannot be read any more.
select t.name, k.id, k."table", k.on_delete = 'CASCADE',
       k.on_delete = 'NO ACTION' or (k.on_delete = 'SET DEFAULT' and not exists (
         select 1 from pragma_foreign_key_list(t.name) part join pragma_table_info(t.name) c on c.name = part."from"
          where part.id = k.id and coalesce(c.dflt_value, 'null') = 'null' collate nocase)),
       k."from", coalesce(k."to", (select p.name from sqlite_schema s, pragma_table_info(s.name) p
                                    where s.type = 'table' and s.name = k."table" collate nocase and p.pk = k.seq + 1))
  from sqlite_schema t, pragma_foreign_key_list(t.name) k
 where t.type = 'table'
 order by t.name, k.id, k.seq;

-- name: delete_groups
-- The row of a group goes with its last member.
delete from groups
 where group_id in (select value from json_each(:groups))
   and not exists (select 1 from jobs where jobs.group_id = groups.group_id);

-- name: forget_keys
-- core/uniqueness.py: is_taken
delete from idempotency_keys
 where (scope, key) in (
   select scope, key from idempotency_keys indexed by idempotency_keys_expiring
    where expires_at is not null and expires_at <= :now
    order by expires_at, scope, key
    limit :limit)
returning scope;

-- name: remove_workers
-- core/leadership.py: is_silent
delete from workers where last_heartbeat <= :now - :silent_for returning id;

-- name: duty_place
-- How far a duty has come whose next bite goes on from there.
select value from meta where key = :duty;

-- name: set_duty_place
-- Also that it has come to its end: a worker's role of PostgreSQL may delete nothing here.
insert into meta (key, value) values (:duty, :place) on conflict (key) do update set value = excluded.value;

-- name: watermark
select cast(value as integer) from meta where key = 'usage_watermark';

-- name: store_id
select value from meta where key = 'store_id';

-- name: set_watermark
insert into meta (key, value) values ('usage_watermark', cast(:edge as text))
on conflict (key) do update set value = excluded.value;

-- name: bite_edge
-- core/usage.py: bite. When the last run of a full bite ended.
select finished_at from runs indexed by runs_finished
 where finished_at is not null and finished_at > :counted and finished_at <= :until
 order by finished_at
 limit 1 offset :limit - 1;

-- name: count_ended
select count(*) from runs indexed by runs_finished
 where finished_at is not null and finished_at > :counted and finished_at <= :edge;

-- name: roll_up
-- core/usage.py: added
insert into usage_hourly (hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select finished_at - finished_at % 3600000000, coalesce(org_id, ''), queue, type, status, count(*),
       sum(max(finished_at - started_at, 0)), sum(coalesce(wait_us, 0)), sum(coalesce(cpu_us, 0)), max(peak_rss)
  from runs indexed by runs_finished
 where finished_at is not null and finished_at > :counted and finished_at <= :edge
 group by 1, 2, 3, 4, 5
on conflict (hour, org_id, queue, type, outcome) do update
   set runs = usage_hourly.runs + excluded.runs, run_us = usage_hourly.run_us + excluded.run_us,
       wait_us = usage_hourly.wait_us + excluded.wait_us, cpu_us = usage_hourly.cpu_us + excluded.cpu_us,
       peak_rss = coalesce(max(usage_hourly.peak_rss, excluded.peak_rss), usage_hourly.peak_rss, excluded.peak_rss);

-- name: count_late
-- The same for the runs that were closed just now and ended behind the watermark.
insert into usage_hourly (hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select runs.finished_at - runs.finished_at % 3600000000, coalesce(runs.org_id, ''), runs.queue, runs.type, status, count(*),
       sum(max(runs.finished_at - runs.started_at, 0)), sum(coalesce(wait_us, 0)), sum(coalesce(cpu_us, 0)), max(peak_rss)
  from jobs join runs on job_seq = seq and attempt_no = executions
 where seq in (select value from json_each(:seqs)) and runs.finished_at <= :counted
 group by 1, 2, 3, 4, 5
on conflict (hour, org_id, queue, type, outcome) do update
   set runs = usage_hourly.runs + excluded.runs, run_us = usage_hourly.run_us + excluded.run_us,
       wait_us = usage_hourly.wait_us + excluded.wait_us, cpu_us = usage_hourly.cpu_us + excluded.cpu_us,
       peak_rss = coalesce(max(usage_hourly.peak_rss, excluded.peak_rss), usage_hourly.peak_rss, excluded.peak_rss);

-- name: batch_edge
-- Of usage_batches, like bite_edge.
select at from usage_batches where at > :counted and at <= :until order by at limit 1 offset :limit - 1;

-- name: count_batches
select coalesce(sum(runs), 0) from usage_batches where at > :counted and at <= :edge;

-- name: roll_up_batches
insert into usage_hourly (hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select at - at % 3600000000, coalesce(org_id, ''), queue, type, outcome, sum(runs), sum(run_us), sum(wait_us), sum(cpu_us),
       max(peak_rss)
  from usage_batches
 where at > :counted and at <= :edge
 group by 1, 2, 3, 4, 5
on conflict (hour, org_id, queue, type, outcome) do update
   set runs = usage_hourly.runs + excluded.runs, run_us = usage_hourly.run_us + excluded.run_us,
       wait_us = usage_hourly.wait_us + excluded.wait_us, cpu_us = usage_hourly.cpu_us + excluded.cpu_us,
       peak_rss = coalesce(max(usage_hourly.peak_rss, excluded.peak_rss), usage_hourly.peak_rss, excluded.peak_rss);

-- name: drop_batches
delete from usage_batches where at <= :before;

-- name: all_usage
-- Column order: windlass.types.Usage.
select hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss from usage_hourly
 where hour >= :since order by hour, org_id, queue, type, outcome;
