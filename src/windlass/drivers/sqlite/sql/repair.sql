-- Rows that contradict each other, which only others can have written. For people: whole tables are looked at.

-- name: orphans
select run_id, queue, type from runs where not exists (select 1 from jobs where seq = job_seq) order by run_id;

-- name: delete_orphans
delete from runs where not exists (select 1 from jobs where seq = job_seq) returning run_id;

-- name: runless
select id from jobs
 where state = 'running' and not exists (select 1 from runs where job_seq = seq and attempt_no = executions);

-- name: begin_runless
update jobs set executions = max(executions, 1), claimed_at = coalesce(claimed_at, :now), updated_at = max(:now, updated_at + 1)
 where state = 'running' and not exists (select 1 from runs where job_seq = seq and attempt_no = executions)
returning seq;

-- name: give_runs
-- core/rows.py: run_of. What was there already under this number stays.
insert into runs (job_seq, attempt_no, run_id, worker_id, org_id, queue, type, template_id, template_version, claimed_at,
                  started_at, wait_us, artifacts)
select seq, executions, :prefix || printf('%012x', seq), worker_id, org_id, queue, type, template_id, template_version,
       claimed_at, started_at, max(claimed_at - max(queued_at, coalesce(run_at, 0)), 0), '[]'
  from jobs where seq in (select value from json_each(:seqs))
on conflict do nothing;

-- name: ended_under_way
select id, runs.status from jobs join runs on job_seq = seq and attempt_no = executions
 where jobs.state = 'running' and runs.status is not null;
