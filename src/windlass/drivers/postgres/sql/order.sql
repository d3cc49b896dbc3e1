-- The order of a queue, as people change it. core/positions.py; core/rows.py: placed. Jobs that wait for their time, a
-- permit or a predecessor stand in it too, in an index of their own (`jobs_unready`, which is asked for in its own words).

-- name: place_after
-- The first of the other queued jobs of a queue and priority that stand behind a place.
select position, windlass.micros(created_at), seq from (
  (select position, created_at, seq from windlass.jobs
    where queue = :queue and priority = :priority and state = 'queued' and ready
      and (position, created_at, seq) > (:position, windlass.at(:created_at), :number) and seq <> :seq
    order by position, created_at, seq limit 1)
  union all
  (select position, created_at, seq from windlass.jobs
    where queue = :queue and priority = :priority and case when not ready then state end = 'queued'
      and (position, created_at, seq) > (:position, windlass.at(:created_at), :number) and seq <> :seq
    order by position, created_at, seq limit 1)
) as place order by position, created_at, seq limit 1;

-- name: place_before
-- The same before a place.
select position, windlass.micros(created_at), seq from (
  (select position, created_at, seq from windlass.jobs
    where queue = :queue and priority = :priority and state = 'queued' and ready
      and (position, created_at, seq) < (:position, windlass.at(:created_at), :number) and seq <> :seq
    order by position desc, created_at desc, seq desc limit 1)
  union all
  (select position, created_at, seq from windlass.jobs
    where queue = :queue and priority = :priority and case when not ready then state end = 'queued'
      and (position, created_at, seq) < (:position, windlass.at(:created_at), :number) and seq <> :seq
    order by position desc, created_at desc, seq desc limit 1)
) as place order by position desc, created_at desc, seq desc limit 1;

-- name: queue_order
-- core/eligibility.py: dispatch_order, over everything that is queued.
select seq, id, priority, position from (
  (select seq, id, priority, position, created_at from windlass.jobs where queue = :queue and state = 'queued' and ready
    order by priority desc, position, created_at, seq limit :limit)
  union all
  (select seq, id, priority, position, created_at from windlass.jobs where queue = :queue and case when not ready then state end = 'queued'
    order by priority desc, position, created_at, seq limit :limit)
) as queued order by priority desc, position, created_at, seq limit :limit;

-- name: queue_positions
select positions from windlass.queues where name = :queue;

-- name: draw_number
-- core/positions.py: tail
select nextval('windlass.jobs_seq');

-- name: place_jobs
update windlass.jobs set priority = fresh.priority, position = fresh.position, updated_at = windlass.touched(updated_at, :now)
  from unnest(:seqs::bigint[], :priorities::bigint[], :positions::bigint[]) as fresh (seq, priority, position)
 where jobs.seq = fresh.seq and jobs.seq = any(:seqs::bigint[]) and state = 'queued';

-- name: lock_order
-- Whoever changes the order of a queue, one after the other; a queue that nobody described has no row to lock.
select pg_advisory_xact_lock(hashtextextended(name, 'windlass.jobs'::regclass::oid::bigint))
  from (select name from unnest(:names::text[]) as asked (name) order by name collate "C") as sorted;
