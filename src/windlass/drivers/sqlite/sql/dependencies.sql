-- Jobs that wait for other jobs. core/dependencies.py: linked, blocked, awaited, released, skipped.

-- name: heads_of
-- Follow superseded_by to the last link, for each of these ids that there is.
with recursive chain (asked, id, next) as (
  select value, jobs.id, superseded_by from json_each(:ids) join jobs on jobs.id = value
  union
  select asked, jobs.id, jobs.superseded_by from chain join jobs on jobs.id = chain.next
)
select asked, jobs.id, jobs.seq, state from chain join jobs on jobs.id = chain.id where next is null;

-- name: link_jobs
-- Jobs that were just stored and wait for so many parents.
update jobs set waiting_on = :waiting_on, after_rule = :rule, ready = (ready and :waiting_on = 0),
                updated_at = max(:now, updated_at + 1)
 where id in (select value from json_each(:ids));

-- name: block_jobs
update jobs set waiting_on = :waiting_on, ready = (ready and :waiting_on = 0), updated_at = max(:now, updated_at + 1)
 where id in (select value from json_each(:ids));

-- name: await_jobs
update jobs set awaited = 1, updated_at = max(:now, updated_at + 1)
 where id in (select value from json_each(:ids)) and awaited = 0 and finished_at is null;

-- name: insert_edges
-- Edges: [[the job's id, the parent's id, rule, done], ...]
insert into dependencies (job_seq, parent_id, rule, done)
select (select seq from jobs where jobs.id = value ->> 0), value ->> 1, value ->> 2, value ->> 3 from json_each(:edges);

-- name: delete_edges
delete from dependencies where job_seq in (select value from json_each(:seqs));

-- name: edges_before
-- What a job waits for or has waited for: its own edges, or those of the nearest link before it that has any. A later link
-- has the larger number.
with recursive links (seq, retry_of) as (
  select seq, retry_of from jobs where id = :id
  union
  select jobs.seq, jobs.retry_of from links join jobs on jobs.id = links.retry_of
)
select jobs.id, parent_id, rule, done
  from (select seq from links where exists (select 1 from dependencies where job_seq = links.seq) order by seq desc limit 1) as nearest
  join dependencies on job_seq = nearest.seq join jobs on jobs.seq = job_seq
 order by parent_id;

-- name: dependants_of
-- The latest link's word on a dependant goes before that of earlier ones.
with recursive links (seq, id, retry_of) as (
  select seq, id, retry_of from jobs where id = :id
  union
  select jobs.seq, jobs.id, jobs.retry_of from links join jobs on jobs.id = links.retry_of
)
select jobs.id, parent_id, rule, done from (
  select job_seq, parent_id, rule, done, max(seq) from links join dependencies on parent_id = links.id
   group by job_seq order by job_seq limit :limit) as found
  join jobs on jobs.seq = found.job_seq
 order by jobs.seq;

-- name: edges_of_group
-- Those of its first members, and those that others have to them.
with member (seq, id) as materialized (
  select seq, id from jobs indexed by jobs_group where group_id = :group_id order by group_seq, seq limit :members
)
select jobs.id, found.parent_id, found.rule, found.done from (
  select job_seq, parent_id, rule, done from member join dependencies on job_seq = member.seq
  union
  select job_seq, parent_id, rule, done from member join dependencies on parent_id = member.id
   order by job_seq, parent_id limit :limit) as found
  join jobs on jobs.seq = found.job_seq
 order by found.job_seq, found.parent_id;

-- name: open_edges
-- Those who wait for these parents.
select parent_id, job_seq from dependencies indexed by dependencies_open
 where parent_id in (select value from json_each(:parents)) and done = 0
 order by parent_id, job_seq
 limit :limit;

-- name: hold_dependants
-- Who writes holds them all.
select seq, group_id, state from jobs where seq in (select value from json_each(:seqs));

-- name: held_groups
-- Whether each group is held: who writes holds them all.
select group_id, 1 from groups where group_id in (select value from json_each(:ids));

-- name: tell_edges
-- The end of these parents is told to these jobs, once.
update dependencies set done = 1
 where parent_id in (select value from json_each(:parents)) and job_seq in (select value from json_each(:seqs)) and done = 0
returning parent_id, job_seq, rule;

-- name: states_of
select id, state from jobs where id in (select value from json_each(:ids));

-- name: release_jobs
update jobs
   set waiting_on = waiting_on - :parents,
       ready = (waiting_on - :parents = 0 and parked_on is null and (run_at is null or run_at <= :now)),
       updated_at = max(:now, updated_at + 1)
 where seq in (select value from json_each(:seqs)) and state = 'queued';

-- name: forget_awaited
-- Nobody waits for these any more.
update jobs set awaited = 0, updated_at = max(:now, updated_at + 1)
 where id in (select value from json_each(:parents)) and awaited = 1
   and not exists (select 1 from dependencies where parent_id = jobs.id and done = 0);

-- name: hand_over
update dependencies set parent_id = :child_id where parent_id = :parent_id and done = 0 returning job_seq;

-- name: owing
-- Ended jobs whose dependants were not all told.
select id from jobs indexed by jobs_owing where awaited = 1 and finished_at is not null order by seq limit :limit;

-- name: skip_jobs
update jobs
   set state = 'cancelled', parked_on = null, finished_at = :now, last_error = :reason, executions = executions + 1,
       skipped = skipped + 1, updated_at = max(:now, updated_at + 1)
 where seq in (select value from json_each(:seqs)) and state = 'queued'
returning seq, id, executions, awaited, group_id, waiting_on, limit_keys, type, org_id, tags;

-- name: insert_skipped
-- Runs: [[seq, run id], ...]. core/dependencies.py: skipped_run
insert into runs (job_seq, attempt_no, run_id, org_id, queue, type, template_id, template_version, claimed_at, started_at,
                  finished_at, status, artifacts, error)
select seq, executions, run_id, org_id, queue, type, template_id, template_version, :now, :now, :now, 'skipped', '[]', :reason
  from (select value ->> 0 as job_seq, value ->> 1 as run_id from json_each(:runs)) join jobs on seq = job_seq;
