-- The registry of workers, and who leads them.

-- name: beat
-- One that was on its way for so long that a later one overtook it says nothing: it would make the worker look silent.
insert into windlass.workers (id, hostname, pid, pool_size, version, queues, types, wakeups, running, started_at, last_heartbeat)
values (:id, :hostname, :pid, :pool_size, :version, :queues::jsonb, :types::jsonb, :wakeups, :running, windlass.at(:started_at),
        windlass.at(:now))
on conflict (id) do update
   set hostname = excluded.hostname, pid = excluded.pid, pool_size = excluded.pool_size, version = excluded.version,
       queues = excluded.queues, types = excluded.types, wakeups = excluded.wakeups, running = excluded.running,
       last_heartbeat = excluded.last_heartbeat
 where workers.last_heartbeat <= excluded.last_heartbeat;

-- name: all_workers
-- Column order: windlass.types.WorkerInfo.
select id, hostname, pid, pool_size, version, queues::text, types::text, wakeups, running, windlass.micros(started_at),
       windlass.micros(last_heartbeat), coalesce(id = worker_id, false),
       case when id = worker_id then windlass.micros(leader_until) end
  from windlass.workers left join windlass.leader on one = 1
 order by id;

-- name: lead
-- core/leadership.py: judge_bid. One statement: granted when nobody leads, with a new epoch; renewed for the one that leads
-- still, and not shortened by what was asked for before. Two who ask at once wait for each other at the one row, and the second is judged by what the first has written. A
-- duty under way holds that row too, so leadership never changes hands in the middle of one.
insert into windlass.leader (one, worker_id, epoch, leader_until)
select 1, :worker_id, 1, windlass.at(:until) where exists (select from windlass.workers where id = :worker_id)
on conflict (one) do update
   set worker_id = excluded.worker_id, leader_until = greatest(excluded.leader_until, leader.leader_until),
       epoch = leader.epoch + (leader.leader_until is null or leader.leader_until <= windlass.at(:now))::int
 where leader.leader_until is null or leader.leader_until <= windlass.at(:now) or leader.worker_id = excluded.worker_id;

-- name: leader
select worker_id, epoch, windlass.micros(leader_until) from windlass.leader where one = 1;

-- name: hold_leader
-- The same, and it stays so until the end of the transaction.
select worker_id, epoch, windlass.micros(leader_until) from windlass.leader where one = 1 for share;

-- name: leave
delete from windlass.workers where id = :worker_id returning id;

-- name: abdicate
update windlass.leader set leader_until = windlass.at(:now) where worker_id = :worker_id and leader_until > windlass.at(:now);
