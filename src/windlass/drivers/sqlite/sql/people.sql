-- What people and services ask for. core/rows.py: cancelled, cancel_requested, replayed, brought_forward.

-- name: cancel_queued
update jobs
   set state = 'cancelled', parked_on = null, finished_at = :now, last_error = :reason, updated_at = max(:now, updated_at + 1)
 where id = :id and state = 'queued';

-- name: cancel_running
update jobs set cancel_requested_at = :now, updated_at = max(:now, updated_at + 1)
 where id = :id and state = 'running' and cancel_requested_at is null;

-- name: replay
update jobs
   set state = 'queued', ready = 1, run_at = null, attempts = case when :reset then 0 else attempts end,
       skipped = case when :reset then executions else skipped end, lost = case when :reset then 0 else lost end,
       finished_at = null, dead_kind = null, dead_at = null, dead_reason = null, worker_id = null,
       cancel_requested_at = null, updated_at = max(:now, updated_at + 1)
 where id = :id and state = 'dead' and dead_kind <> 'superseded';

-- name: supersede
update jobs set dead_kind = 'superseded', superseded_by = :child_id, updated_at = max(:now, updated_at + 1)
 where id = :id and state = 'dead' and dead_kind <> 'superseded';

-- name: run_now
update jobs set run_at = null, ready = (waiting_on = 0 and parked_on is null), updated_at = max(:now, updated_at + 1)
 where id = :id and state = 'queued';

-- name: put_queue
insert into queues (name, positions, preset, settings, paused_at, created_at, updated_at)
values (:name, :positions, :preset, :settings, :paused_at, :now, :now)
on conflict (name) do update set positions = excluded.positions, preset = excluded.preset, settings = excluded.settings,
  paused_at = case when excluded.paused_at is null then null else coalesce(queues.paused_at, excluded.paused_at) end,
  updated_at = max(excluded.updated_at, queues.updated_at + 1);

-- name: put_group
insert into groups (group_id, name, mode, on_failure, total, remaining, created_at)
values (:group_id, :name, :mode, :on_failure, :total, :total, :now)
on conflict (group_id) do nothing
returning group_id;
