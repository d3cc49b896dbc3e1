-- The registry of workers, and who leads them.

-- name: beat
-- One that was on its way for so long that a later one overtook it says nothing: it would make the worker look silent.
insert into workers (id, hostname, pid, pool_size, version, queues, types, wakeups, running, started_at, last_heartbeat)
values (:id, :hostname, :pid, :pool_size, :version, :queues, :types, :wakeups, :running, :started_at, :now)
on conflict (id) do update
   set hostname = excluded.hostname, pid = excluded.pid, pool_size = excluded.pool_size, version = excluded.version,
       queues = excluded.queues, types = excluded.types, wakeups = excluded.wakeups, running = excluded.running,
       last_heartbeat = excluded.last_heartbeat
 where workers.last_heartbeat <= excluded.last_heartbeat;

-- name: all_workers
-- Column order: windlass.types.WorkerInfo.
select id, hostname, pid, pool_size, version, queues, types, wakeups, running, started_at, last_heartbeat,
       coalesce(id = worker_id, 0), case when id = worker_id then leader_until end
  from workers left join leader on one = 1
 order by id;

-- name: lead
-- core/leadership.py: judge_bid. One statement under the write lock: granted when nobody leads, with a new epoch; renewed
-- for the one that leads still, and not shortened by what was asked for before.
insert into leader (one, worker_id, epoch, leader_until)
select 1, :worker_id, 1, :until where exists (select 1 from workers where id = :worker_id)
on conflict (one) do update
   set worker_id = excluded.worker_id, leader_until = max(excluded.leader_until, coalesce(leader.leader_until, 0)),
       epoch = leader.epoch + (leader.leader_until is null or leader.leader_until <= :now)
 where leader.leader_until is null or leader.leader_until <= :now or leader.worker_id = excluded.worker_id;

-- name: leader
select worker_id, epoch, leader_until from leader where one = 1;

-- name: leave
delete from workers where id = :worker_id returning id;

-- name: abdicate
update leader set leader_until = :now where worker_id = :worker_id and leader_until > :now;
