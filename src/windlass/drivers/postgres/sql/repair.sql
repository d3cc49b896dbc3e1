-- Rows that contradict each other, which only others can have written. For people: whole tables are looked at.

-- name: orphans
select run_id, queue, type from windlass.runs
 where not exists (select from windlass.jobs where seq = job_seq) order by run_id;

-- name: delete_orphans
delete from windlass.runs
 where (job_seq, attempt_no) in (
   select job_seq, attempt_no from windlass.runs where not exists (select from windlass.jobs where seq = job_seq) limit :limit)
returning run_id;

-- name: runless
-- With `history` a run under way has no row, but it has a number and a time.
select id from windlass.jobs
 where state = 'running' and not exists (select from windlass.runs where job_seq = seq and attempt_no = executions)
   and (history is null or executions = 0 or claimed_at is null);

-- name: begin_runless
update windlass.jobs set executions = greatest(executions, 1), claimed_at = coalesce(claimed_at, windlass.at(:now)),
                         updated_at = windlass.touched(updated_at, :now)
 where seq = any(array(
   select seq from windlass.jobs
    where state = 'running' and not exists (select from windlass.runs where job_seq = seq and attempt_no = executions)
      and (history is null or executions = 0 or claimed_at is null)
    order by seq limit :limit for no key update))
returning seq;

-- name: ended_under_way
select id, runs.status from windlass.jobs join windlass.runs on job_seq = seq and attempt_no = executions
 where jobs.state = 'running' and runs.status is not null;
