-- What a minute of each queue looked like.

-- name: is_sampled
select exists (select 1 from queue_stats where minute = :minute);

-- name: any_unkept
-- Whether runs that left no row ended in this minute.
select exists (select 1 from usage_batches where at >= :minute and at < :minute + 60000000);

-- name: ended_alike
-- core/sampling.py: Ended, with bucket() spelled out twice. `:unkept`: some of them left no row, and are told from their jobs.
select queue, status,
       case when wait_us < 100 then 0 when wait_us < 200 then 1 when wait_us < 500 then 2 when wait_us < 1000 then 3
            when wait_us < 2000 then 4 when wait_us < 5000 then 5 when wait_us < 10000 then 6 when wait_us < 20000 then 7
            when wait_us < 50000 then 8 when wait_us < 100000 then 9 when wait_us < 200000 then 10
            when wait_us < 500000 then 11 when wait_us < 1000000 then 12 when wait_us < 2000000 then 13
            when wait_us < 5000000 then 14 when wait_us < 10000000 then 15 when wait_us < 20000000 then 16
            when wait_us < 50000000 then 17 when wait_us < 100000000 then 18 when wait_us < 200000000 then 19
            when wait_us < 500000000 then 20 when wait_us < 1000000000 then 21 when wait_us < 2000000000 then 22
            when wait_us < 5000000000 then 23 when wait_us < 10000000000 then 24 when wait_us < 20000000000 then 25
            when wait_us < 50000000000 then 26 when wait_us < 100000000000 then 27 else 28 end,
       case when run_us < 100 then 0 when run_us < 200 then 1 when run_us < 500 then 2 when run_us < 1000 then 3
            when run_us < 2000 then 4 when run_us < 5000 then 5 when run_us < 10000 then 6 when run_us < 20000 then 7
            when run_us < 50000 then 8 when run_us < 100000 then 9 when run_us < 200000 then 10
            when run_us < 500000 then 11 when run_us < 1000000 then 12 when run_us < 2000000 then 13
            when run_us < 5000000 then 14 when run_us < 10000000 then 15 when run_us < 20000000 then 16
            when run_us < 50000000 then 17 when run_us < 100000000 then 18 when run_us < 200000000 then 19
            when run_us < 500000000 then 20 when run_us < 1000000000 then 21 when run_us < 2000000000 then 22
            when run_us < 5000000000 then 23 when run_us < 10000000000 then 24 when run_us < 20000000000 then 25
            when run_us < 50000000000 then 26 when run_us < 100000000000 then 27 else 28 end,
       count(*)
  from (select queue, status, coalesce(wait_us, 0) as wait_us, max(finished_at - started_at, 0) as run_us
          from runs indexed by runs_finished
         where finished_at is not null and finished_at >= :minute and finished_at < :minute + 60000000
        union all
        select queue, 'completed', max(claimed_at - max(queued_at, coalesce(run_at, 0)), 0),
               max(finished_at - coalesce(started_at, finished_at), 0)
          from jobs indexed by jobs_finished
         where :unkept and state = 'succeeded' and finished_at is not null and history is not null
           and finished_at >= :minute and :minute + 60000000 > finished_at
           and not exists (select 1 from runs where job_seq = seq and attempt_no = executions))
 group by 1, 2, 3, 4;

-- name: first_created
-- Of each queue the ready job that was created first, and since when it has been due; found in the index alone.
select first.queue, first.created_at, max(jobs.queued_at, coalesce(jobs.run_at, 0))
  from (select queue, min(created_at) as created_at, seq from jobs indexed by jobs_ready
         where state = 'queued' and ready = 1 group by queue) as first
  join jobs on jobs.seq = first.seq;

-- name: first_due
-- Nobody is due before it is created, so only those created before the first candidate was due can precede it.
select min(max(queued_at, coalesce(run_at, 0))) from jobs indexed by jobs_ready
 where queue = :queue and state = 'queued' and ready = 1 and created_at < :before;

-- name: first_waiting
-- Due, but not promoted yet.
select queue, min(max(queued_at, run_at)) from jobs indexed by jobs_waiting
 where state = 'queued' and ready = 0 and waiting_on = 0 and parked_on is null and run_at <= :now
 group by queue;

-- name: add_sample
insert into queue_stats (queue, minute, depth, oldest, finished, waits, runs)
values (:queue, :minute, :depth, :oldest, :finished, :waits, :runs);

-- name: drop_samples
delete from queue_stats where minute < :before;

-- name: all_samples
-- Column order: windlass.types.QueueSample.
select queue, minute, depth, oldest, finished, waits, runs from queue_stats where minute >= :since order by minute, queue;

-- name: samples_at
select queue, minute, depth, oldest, finished, waits, runs from queue_stats
 where minute in (select value from json_each(:minutes)) order by minute, queue;

-- name: resting_queues
-- Those that somebody has paused or holds: nothing is supposed to run there.
select name from queues where paused_at is not null
union
select queue from reservations where status = 'ACTIVE' and expires_at > :now;
