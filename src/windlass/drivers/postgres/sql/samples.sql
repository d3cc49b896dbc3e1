-- What a minute of each queue looked like.

-- name: is_sampled
select exists (select from windlass.queue_stats where minute = windlass.at(:minute));

-- name: any_unkept
-- Whether runs that left no row ended in this minute.
select exists (select from windlass.usage_batches where at >= windlass.at(:minute) and at < windlass.at(:minute + 60000000));

-- name: ended_alike
-- core/sampling.py: Ended. `:edges` are its EDGES, in which a duration's place is its bucket. `:unkept`: some of them left no
-- row, and are told from their jobs.
select queue, status, width_bucket(wait_us, :edges::bigint[]), width_bucket(run_us, :edges::bigint[]), count(*)
  from (select queue, status, coalesce(wait_us, 0) as wait_us,
               greatest(windlass.micros(finished_at) - windlass.micros(started_at), 0) as run_us
          from windlass.runs
         where finished_at is not null and finished_at >= windlass.at(:minute) and finished_at < windlass.at(:minute + 60000000)
        union all
        select queue, 'completed', greatest(windlass.micros(claimed_at) - windlass.micros(greatest(queued_at, run_at)), 0),
               greatest(windlass.micros(finished_at) - windlass.micros(coalesce(started_at, finished_at)), 0)
          from windlass.jobs
         where :unkept and state = 'succeeded' and finished_at is not null and finished_at >= windlass.at(:minute)
           and finished_at < windlass.at(:minute + 60000000) and history is not null
           and not exists (select from windlass.runs where job_seq = jobs.seq and attempt_no = executions)) as ended
 group by 1, 2, 3, 4;

-- name: first_created
-- Of each queue the ready job that was created first, and since when it has been due.
select first.queue, windlass.micros(first.created_at), windlass.micros(min(greatest(jobs.queued_at, jobs.run_at)))
  from (select queue, min(created_at) as created_at from windlass.jobs where state = 'queued' and ready group by queue) as first
  join windlass.jobs on jobs.queue = first.queue and jobs.created_at = first.created_at and state = 'queued' and ready
 group by 1, 2;

-- name: first_due
-- Nobody is due before it is created, so only those created before the first candidate was due can precede it.
select windlass.micros(min(greatest(queued_at, run_at))) from windlass.jobs
 where queue = :queue and state = 'queued' and ready and created_at < windlass.at(:before);

-- name: first_waiting
-- Due, but not promoted yet.
select queue, windlass.micros(min(greatest(queued_at, run_at))) from windlass.jobs
 where state = 'queued' and not ready and waiting_on = 0 and parked_on is null and run_at <= windlass.at(:now)
 group by queue;

-- name: add_sample
insert into windlass.queue_stats (queue, minute, depth, oldest, finished, waits, runs)
values (:queue, windlass.at(:minute), :depth::jsonb, :oldest, :finished::jsonb, :waits::jsonb, :runs::jsonb)
on conflict do nothing
returning queue;

-- name: drop_samples
delete from windlass.queue_stats where minute < windlass.at(:before);

-- name: all_samples
-- Column order: windlass.types.QueueSample.
select queue, windlass.micros(minute), depth::text, oldest, finished::text, waits::text, runs::text from windlass.queue_stats
 where minute >= windlass.at(:since) order by minute, queue;

-- name: samples_at
select queue, windlass.micros(minute), depth::text, oldest, finished::text, waits::text, runs::text from windlass.queue_stats
 where minute = any(array(select windlass.at(asked) from unnest(:minutes::bigint[]) as asked)) order by minute, queue;

-- name: resting_queues
-- Those that somebody has paused or holds: nothing is supposed to run there.
select name from windlass.queues where paused_at is not null
union
select queue from windlass.reservations where status = 'ACTIVE' and expires_at > windlass.at(:now);
