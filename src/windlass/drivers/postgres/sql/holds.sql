-- Holds: a queue taken for direct execution. core/holds.py; column order: windlass.types.Hold.

-- name: get_hold
select reservation_id, queue, reserved_by, status, windlass.micros(reserved_at), windlass.micros(granted_at), windlass.micros(expires_at), windlass.micros(ended_at)
  from windlass.reservations where reservation_id = :id;

-- name: insert_hold
-- Nothing is inserted when the queue is held.
insert into windlass.reservations (reservation_id, queue, reserved_by, status, reserved_at, expires_at)
values (:id, :queue, :by, 'ACTIVE', windlass.at(:now), windlass.at(:expires_at))
on conflict (queue) where status = 'ACTIVE' do nothing
returning reservation_id;

-- name: renew_hold
update windlass.reservations set expires_at = windlass.at(:expires_at), granted_at = windlass.at(:granted_at)
 where reservation_id = :id and status = 'ACTIVE';

-- name: close_hold
update windlass.reservations set status = :status, ended_at = windlass.at(:now) where reservation_id = :id and status = 'ACTIVE';

-- name: forget_holds
delete from windlass.reservations where queue = :queue and status <> 'ACTIVE' and ended_at < windlass.at(:before);

-- name: end_stale_holds
-- One that somebody renews, or ends, at this moment is stepped over.
update windlass.reservations set status = 'EXPIRED', ended_at = windlass.at(:now)
 where reservation_id = any(array(
   select reservation_id from windlass.reservations
    where queue = any(:queues::text[]) and status = 'ACTIVE' and expires_at <= windlass.at(:now)
    order by reservation_id
      for no key update skip locked))
returning reservation_id, queue, reserved_by, status, windlass.micros(reserved_at), windlass.micros(granted_at), windlass.micros(expires_at), windlass.micros(ended_at);

-- name: lock_hold
select reservation_id from windlass.reservations where reservation_id = :id for no key update;

-- name: has_valid_lease
select exists (select from windlass.jobs where state = 'running' and queue = :queue and lease_expires_at > windlass.at(:now));

-- name: fence_lapsed
-- core/rows.py: fenced
update windlass.jobs set lease_expires_at = claimed_at, updated_at = windlass.touched(updated_at, :now)
 where seq = any(array(
   select seq from windlass.jobs
    where state = 'running' and queue = :queue and lease_expires_at <= windlass.at(:now) and lease_expires_at > claimed_at
    order by seq for no key update skip locked));

-- name: has_unfenced_lease
-- Whom somebody else held while the lapsed ones were fenced.
select exists (select from windlass.jobs where state = 'running' and queue = :queue and lease_expires_at > claimed_at);

-- name: all_holds
select reservation_id, queue, reserved_by, status, windlass.micros(reserved_at), windlass.micros(granted_at), windlass.micros(expires_at), windlass.micros(ended_at)
  from windlass.reservations order by reserved_at, reservation_id;

-- name: claims_under_way
-- Whoever looks for holds has a lock on their table from before it looks until its transaction ends, a claim among others;
-- and whoever gets that lock later sees what was committed earlier. docs/adr/0016-holds-and-claims-under-way.md
select virtualtransaction from pg_locks
 where locktype = 'relation' and relation = 'windlass.reservations'::regclass and granted
   and database = (select oid from pg_database where datname = current_database())
   and pid is distinct from pg_backend_pid();

-- name: still_under_way
select virtualtransaction from pg_locks
 where locktype = 'relation' and relation = 'windlass.reservations'::regclass and granted
   and database = (select oid from pg_database where datname = current_database())
   and virtualtransaction = any(:transactions::text[]);

-- name: pause
select pg_sleep(:seconds);
