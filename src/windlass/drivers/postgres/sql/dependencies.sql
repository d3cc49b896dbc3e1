-- Jobs that wait for other jobs. core/dependencies.py: linked, blocked, awaited, released, skipped.

-- name: heads_of
-- Follow superseded_by to the last link, for each of these ids that there is.
with recursive chain (asked, id, next) as (
  select asked, first.id, first.superseded_by from unnest(:ids::text[]) as asked cross join lateral (
    select id, superseded_by from windlass.jobs where jobs.id = asked offset 0) as first
  union
  select asked, later.id, later.superseded_by from chain cross join lateral (
    select id, superseded_by from windlass.jobs where jobs.id = chain.next offset 0) as later
)
select asked, last.id, last.seq, last.state from chain cross join lateral (
  select id, seq, state from windlass.jobs where jobs.id = chain.id offset 0) as last
 where next is null;

-- name: lock_open
-- Those that have not ended, in the order of their numbers. Who comes with a parent that is dead is skipped, which makes
-- runs; who does that says so before it holds anything: see `hold_claims`. Who counts by several limits holds jobs in another
-- order.
with nothing as (delete from windlass.barrier where false)
select seq, state from windlass.jobs where seq = any(:seqs::bigint[]) and finished_at is null order by seq for no key update;

-- name: lock_open_for_long
-- The same without a word: in a transaction that may be long, nobody should have to wait for it who makes a limit.
select seq, state from windlass.jobs where seq = any(:seqs::bigint[]) and finished_at is null order by seq for no key update;

-- name: link_jobs
-- Jobs that were just stored and wait for so many parents.
update windlass.jobs set waiting_on = :waiting_on, after_rule = :rule::text, ready = (ready and :waiting_on = 0),
                         updated_at = windlass.touched(updated_at, :now)
 where id = any(:ids::text[]);

-- name: block_jobs
update windlass.jobs set waiting_on = :waiting_on, ready = (ready and :waiting_on = 0),
                         updated_at = windlass.touched(updated_at, :now)
 where id = any(:ids::text[]);

-- name: await_jobs
update windlass.jobs set awaited = true, updated_at = windlass.touched(updated_at, :now)
 where id = any(:ids::text[]) and not awaited and case when finished_at is null then true end;

-- name: insert_edges
-- Edges: [[the job's id, the parent's id, rule, done], ...]
insert into windlass.dependencies (job_seq, parent_id, rule, done)
select (select seq from windlass.jobs where id = edge ->> 0), edge ->> 1, edge ->> 2, (edge ->> 3)::boolean
  from jsonb_array_elements(:edges::text::jsonb) as edge;

-- name: delete_edges
delete from windlass.dependencies where job_seq = any(:seqs::bigint[]);

-- name: edges_before
-- What a job waits for or has waited for: its own edges, or those of the nearest link before it that has any. A later link
-- has the larger number.
with recursive links (seq, id, retry_of) as (
  select seq, id, retry_of from windlass.jobs where id = :id
  union
  select jobs.seq, jobs.id, jobs.retry_of from links join windlass.jobs on jobs.id = links.retry_of
), nearest as (
  select seq, id from links where exists (select from windlass.dependencies where job_seq = links.seq) order by seq desc limit 1
)
select nearest.id, parent_id, rule, done from nearest join windlass.dependencies on job_seq = nearest.seq order by parent_id;

-- name: dependants_of
-- The latest link's word on a dependant goes before that of earlier ones.
with recursive links (seq, id, retry_of) as (
  select seq, id, retry_of from windlass.jobs where id = :id
  union
  select jobs.seq, jobs.id, jobs.retry_of from links join windlass.jobs on jobs.id = links.retry_of
), found as (
  select distinct on (job_seq) job_seq, parent_id, rule, done
    from links join windlass.dependencies on parent_id = links.id
   order by job_seq, links.seq desc
   limit :limit
)
select jobs.id, parent_id, rule, done from found join windlass.jobs on jobs.seq = job_seq order by job_seq;

-- name: edges_of_group
-- Those of its first members, and those that others have to them.
with member as materialized (
  select seq, id from windlass.jobs where group_id = :group_id order by group_seq, seq limit :members
), found as (
  select edge.* from member cross join lateral (
    select job_seq, parent_id, rule, done from windlass.dependencies where job_seq = member.seq offset 0) as edge
  union
  select edge.* from member cross join lateral (
    select job_seq, parent_id, rule, done from windlass.dependencies where parent_id = member.id offset 0) as edge
   order by job_seq, parent_id limit :limit
)
select waits.id, parent_id, rule, done from found cross join lateral (
  select id from windlass.jobs where seq = job_seq offset 0) as waits
 order by job_seq, parent_id;

-- name: reach
-- Whatever the end of these jobs may touch, without locks: who waits for one of them, and, where `:deep`, who waits for those
-- that would be skipped with it.
with recursive reached (seq, id, ends) as (
  select seq, id, true from windlass.jobs where seq = any(:seqs::bigint[]) and awaited
  union
  select child.seq, child.id, :deep and edge.rule = 'cancel' from reached cross join lateral (
    select job_seq, rule from windlass.dependencies where parent_id = reached.id and not done order by job_seq limit :limit) as edge
  cross join lateral (select seq, id from windlass.jobs where jobs.seq = edge.job_seq offset 0) as child
   where reached.ends
)
select jobs.seq, jobs.group_id from (select distinct seq from reached limit :limit) as found cross join lateral (
  select seq, group_id from windlass.jobs where jobs.seq = found.seq offset 0) as jobs;

-- name: open_edges
-- Those who wait for these parents.
select parent_id, job_seq from windlass.dependencies
 where parent_id = any(:parents::text[]) and not done
 order by parent_id, job_seq
 limit :limit;

-- name: hold_dependants
-- Never waits: what somebody else holds is left to a sweep.
select seq, group_id, state from windlass.jobs where seq = any(:seqs::bigint[]) order by seq for no key update skip locked;

-- name: held_groups
-- Whether each group is held. Never waits either.
with free as materialized (
  select group_id from windlass.groups where group_id = any(:ids::text[]) order by group_id for no key update skip locked
)
select groups.group_id, free.group_id is not null
  from windlass.groups left join free using (group_id) where groups.group_id = any(:ids::text[]);

-- name: tell_edges
-- The end of these parents is told to these jobs, once.
update windlass.dependencies set done = true
 where parent_id = any(:parents::text[]) and job_seq = any(:seqs::bigint[]) and not done
returning parent_id, job_seq, rule;

-- name: states_of
select id, state from windlass.jobs where id = any(:ids::text[]);

-- name: release_jobs
update windlass.jobs
   set waiting_on = waiting_on - :parents,
       ready = (waiting_on - :parents = 0 and parked_on is null and coalesce(run_at <= windlass.at(:now), true)),
       updated_at = windlass.touched(updated_at, :now)
 where seq = any(:seqs::bigint[]) and case when true then state end = 'queued';

-- name: forget_awaited
-- Nobody waits for these any more.
update windlass.jobs set awaited = false, updated_at = windlass.touched(updated_at, :now)
 where id = any(:parents::text[]) and awaited
   and (select true from windlass.dependencies where parent_id = jobs.id and not done limit 1) is null;

-- name: hand_over
update windlass.dependencies set parent_id = :child_id where parent_id = :parent_id and not done returning job_seq;

-- name: owing
-- Ended jobs whose dependants were not all told. What another sweep is paying is left to it. Some of those may have to be
-- skipped, which makes runs; who does that says so before it holds anything: see `hold_claims`.
with nothing as (delete from windlass.barrier where false)
select id from windlass.jobs where awaited and finished_at is not null order by seq limit :limit for no key update skip locked;

-- name: skip_jobs
update windlass.jobs
   set state = 'cancelled', parked_on = null, finished_at = windlass.at(:now), last_error = :reason,
       executions = executions + 1, skipped = skipped + 1, updated_at = windlass.touched(updated_at, :now)
 where seq = any(:seqs::bigint[]) and case when true then state end = 'queued'
returning seq, id, executions, awaited, group_id, waiting_on, limit_keys::text, type, org_id, tags::text;

-- name: insert_skipped
-- Runs: [[seq, run id], ...]. core/dependencies.py: skipped_run
insert into windlass.runs (job_seq, attempt_no, run_id, org_id, queue, type, template_id, template_version, claimed_at,
                           started_at, finished_at, status, error)
select seq, executions, run ->> 1, org_id, queue, type, template_id, template_version, windlass.at(:now), windlass.at(:now),
       windlass.at(:now), 'skipped', :reason
  from jsonb_array_elements(:runs::text::jsonb) as run cross join lateral (
    select seq, executions, org_id, queue, type, template_id, template_version from windlass.jobs
     where jobs.seq = (run ->> 0)::bigint offset 0) as skipped;
