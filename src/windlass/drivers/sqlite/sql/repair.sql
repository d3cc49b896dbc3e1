-- Rows that contradict each other, which only others can have written. For people: whole tables are looked at.

-- name: orphans
select run_id, queue, type from runs where not exists (select 1 from jobs where seq = job_seq) order by run_id;

-- name: delete_orphans
delete from runs
 where (job_seq, attempt_no) in (
   select job_seq, attempt_no from runs where not exists (select 1 from jobs where seq = job_seq) limit :limit)
returning run_id;

-- name: runless
-- With `history` a run under way has no row, but it has a number and a time.
select id from jobs
 where state = 'running' and not exists (select 1 from runs where job_seq = seq and attempt_no = executions)
   and (history is null or executions = 0 or claimed_at is null);

-- name: begin_runless
update jobs set executions = max(executions, 1), claimed_at = coalesce(claimed_at, :now), updated_at = max(:now, updated_at + 1)
 where seq in (
   select seq from jobs
    where state = 'running' and not exists (select 1 from runs where job_seq = seq and attempt_no = executions)
      and (history is null or executions = 0 or claimed_at is null)
    order by seq limit :limit)
returning seq;

-- name: ended_under_way
select id, runs.status from jobs join runs on job_seq = seq and attempt_no = executions
 where jobs.state = 'running' and runs.status is not null;
