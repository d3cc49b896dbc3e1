-- Holds: a queue taken for direct execution. core/holds.py; column order: windlass.types.Hold.

-- name: get_hold
select reservation_id, queue, reserved_by, status, reserved_at, granted_at, expires_at, ended_at
  from reservations where reservation_id = :id;

-- name: insert_hold
-- Nothing is inserted when the queue is held.
insert into reservations (reservation_id, queue, reserved_by, status, reserved_at, expires_at)
values (:id, :queue, :by, 'ACTIVE', :now, :expires_at)
on conflict (queue) where status = 'ACTIVE' do nothing
returning reservation_id;

-- name: renew_hold
update reservations set expires_at = :expires_at, granted_at = :granted_at
 where reservation_id = :id and status = 'ACTIVE';

-- name: close_hold
update reservations set status = :status, ended_at = :now where reservation_id = :id and status = 'ACTIVE';

-- name: forget_holds
delete from reservations where queue = :queue and status <> 'ACTIVE' and ended_at < :before;

-- name: end_stale_holds
update reservations set status = 'EXPIRED', ended_at = :now
 where queue in (select value from json_each(:queues)) and status = 'ACTIVE' and expires_at <= :now
returning reservation_id, queue, reserved_by, status, reserved_at, granted_at, expires_at, ended_at;

-- name: has_valid_lease
select exists (select 1 from jobs indexed by jobs_leased where state = 'running' and queue = :queue and lease_expires_at > :now);

-- name: fence_lapsed
-- core/rows.py: fenced
update jobs set lease_expires_at = claimed_at, updated_at = max(:now, updated_at + 1)
 where seq in (select seq from jobs indexed by jobs_leased
                where state = 'running' and queue = :queue and lease_expires_at <= :now and lease_expires_at > claimed_at);

-- name: has_unfenced_lease
-- Whom somebody else held while the lapsed ones were fenced.
select exists (select 1 from jobs indexed by jobs_leased where state = 'running' and queue = :queue and lease_expires_at > claimed_at);

-- name: all_holds
select reservation_id, queue, reserved_by, status, reserved_at, granted_at, expires_at, ended_at
  from reservations order by reserved_at, reservation_id;
