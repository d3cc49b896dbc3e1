-- Rows that contradict each other, which only others can have written. For people: whole tables are looked at.

-- name: orphans
select run_id, queue, type from windlass.runs
 where not exists (select from windlass.jobs where seq = job_seq) order by run_id;

-- name: delete_orphans
delete from windlass.runs where not exists (select from windlass.jobs where seq = job_seq) returning run_id;

-- name: runless
select id from windlass.jobs
 where state = 'running' and not exists (select from windlass.runs where job_seq = seq and attempt_no = executions);

-- name: begin_runless
update windlass.jobs set executions = greatest(executions, 1), claimed_at = coalesce(claimed_at, windlass.at(:now)),
                         updated_at = windlass.touched(updated_at, :now)
 where seq = any(array(
   select seq from windlass.jobs
    where state = 'running' and not exists (select from windlass.runs where job_seq = seq and attempt_no = executions)
    order by seq for update))
returning seq;

-- name: give_runs
-- core/rows.py: run_of. What was there already under this number stays.
insert into windlass.runs (job_seq, attempt_no, run_id, worker_id, org_id, queue, type, template_id, template_version,
                           claimed_at, started_at, wait_us)
select seq, executions, :prefix || lpad(to_hex(seq), greatest(12, length(to_hex(seq))), '0'), worker_id, org_id, queue, type,
       template_id, template_version, claimed_at, started_at,
       greatest(windlass.micros(claimed_at) - windlass.micros(greatest(queued_at, run_at)), 0)
  from windlass.jobs where seq = any(:seqs::bigint[]) and state = 'running'
on conflict do nothing;

-- name: ended_under_way
select id, runs.status from windlass.jobs join windlass.runs on job_seq = seq and attempt_no = executions
 where jobs.state = 'running' and runs.status is not null;
