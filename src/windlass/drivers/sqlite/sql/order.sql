-- The order of a queue, as people change it. core/positions.py; core/rows.py: placed. Jobs that wait for their time, a
-- permit or a predecessor stand in it too, in an index of their own.

-- name: place_after
-- The first of the other queued jobs of a queue and priority that stand behind a place.
select position, created_at, seq from (
  select * from (select position, created_at, seq from jobs indexed by jobs_ready
    where queue = :queue and priority = :priority and state = 'queued' and ready = 1
      and (position, created_at, seq) > (:position, :created_at, :number) and seq <> :seq
    order by position, created_at, seq limit 1)
  union all
  select * from (select position, created_at, seq from jobs indexed by jobs_unready
    where queue = :queue and priority = :priority and state = 'queued' and ready = 0
      and (position, created_at, seq) > (:position, :created_at, :number) and seq <> :seq
    order by position, created_at, seq limit 1)
) order by position, created_at, seq limit 1;

-- name: place_before
-- The same before a place.
select position, created_at, seq from (
  select * from (select position, created_at, seq from jobs indexed by jobs_ready
    where queue = :queue and priority = :priority and state = 'queued' and ready = 1
      and (position, created_at, seq) < (:position, :created_at, :number) and seq <> :seq
    order by position desc, created_at desc, seq desc limit 1)
  union all
  select * from (select position, created_at, seq from jobs indexed by jobs_unready
    where queue = :queue and priority = :priority and state = 'queued' and ready = 0
      and (position, created_at, seq) < (:position, :created_at, :number) and seq <> :seq
    order by position desc, created_at desc, seq desc limit 1)
) order by position desc, created_at desc, seq desc limit 1;

-- name: queue_order
-- core/eligibility.py: dispatch_order, over everything that is queued.
select seq, id, priority, position from (
  select * from (select seq, id, priority, position, created_at from jobs indexed by jobs_ready where queue = :queue and state = 'queued' and ready = 1
    order by priority desc, position, created_at, seq limit :limit)
  union all
  select * from (select seq, id, priority, position, created_at from jobs indexed by jobs_unready where queue = :queue and state = 'queued' and ready = 0
    order by priority desc, position, created_at, seq limit :limit)
) order by priority desc, position, created_at, seq limit :limit;

-- name: queue_positions
select positions from queues where name = :queue;

-- name: draw_number
-- core/positions.py: tail. The same numbers that new rows get.
update sqlite_sequence set seq = seq + 1 where name = 'jobs' returning seq;

-- name: place_jobs
-- Three lists of the same length.
update jobs set priority = fresh.priority, position = fresh.position, updated_at = max(:now, updated_at + 1)
  from (select value as seq, :priorities ->> key as priority, :positions ->> key as position
          from json_each(:seqs)) as fresh
 where jobs.seq = fresh.seq and state = 'queued';
