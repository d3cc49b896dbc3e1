-- Events and where they go. core/events.py says what is announced, core/webhooks.py what becomes of a delivery.

-- name: put_webhook
insert into windlass.webhooks (webhook_id, url, events, secret, org_id, enabled, created_at, old_secret, old_until,
                               disabled_reason)
values (:webhook_id, :url, :events::jsonb, :secret, :org_id, :enabled, windlass.at(:created_at), :old_secret,
        windlass.at(:old_until), :disabled_reason)
on conflict (webhook_id) do update set url = excluded.url, events = excluded.events, secret = excluded.secret,
       org_id = excluded.org_id, enabled = excluded.enabled, old_secret = excluded.old_secret,
       old_until = excluded.old_until, disabled_reason = excluded.disabled_reason;

-- name: all_webhooks
select webhook_id, url, events::text, secret, org_id, enabled, windlass.micros(created_at), old_secret,
       windlass.micros(old_until), disabled_reason
  from windlass.webhooks order by webhook_id;

-- name: subscribers
-- What is needed to announce something, and no secret: a role that enqueues may not read those.
select webhook_id, url, events::text, '', org_id, enabled, windlass.micros(created_at), null, windlass.micros(old_until),
       disabled_reason
  from windlass.webhooks order by webhook_id;

-- name: lock_webhooks
select from windlass.webhooks where webhook_id = any(:ids::text[]) order by webhook_id for no key update;

-- name: share_webhooks
-- None of them is removed before the deliveries to it are made.
select from windlass.webhooks order by webhook_id for share;

-- name: delete_webhook
delete from windlass.webhooks where webhook_id = :webhook_id;

-- name: disable_webhook
-- Unless something was sent to it since then.
update windlass.webhooks set enabled = false, disabled_reason = :reason
 where webhook_id = :webhook_id and enabled
   and (:since::bigint is null or not exists (
        select from windlass.deliveries d
         where d.webhook_id = :webhook_id and d.status = 'sent' and d.finished_at >= windlass.at(:since::bigint)))
returning webhook_id;

-- name: orgs_in_group
select distinct org_id from windlass.jobs where group_id = :group_id;

-- name: all_events
select event, job_id, org_id, body, windlass.micros(created_at), event_id, windlass.micros(fanned_at)
  from windlass.outbox order by event_id;

-- name: waiting_events
select event, job_id, org_id, body, windlass.micros(created_at), event_id, windlass.micros(fanned_at)
  from windlass.outbox where fanned_at is null order by event_id limit :limit;

-- name: lock_waiting_events
-- Two who make deliveries wait for each other here, and the second finds nothing left to do.
select from windlass.outbox where fanned_at is null order by event_id limit :limit for no key update;

-- name: fan_events
update windlass.outbox set fanned_at = windlass.at(:now) where event_id = any(:ids::bigint[]);

-- name: add_fanned_event
insert into windlass.outbox (event, job_id, org_id, body, created_at, fanned_at)
values (:event, :job_id, :org_id, :body, windlass.at(:now), windlass.at(:now))
returning event_id;

-- name: insert_deliveries
insert into windlass.deliveries (event_id, webhook_id, event_at, next_attempt_at)
select e.event_id, made.value ->> 1, e.created_at, windlass.at(:now)
  from jsonb_array_elements(:items::jsonb) as made join windlass.outbox e on e.event_id = (made.value ->> 0)::bigint
on conflict (event_id, webhook_id, event_at) do nothing;

-- name: get_delivery
select d.event_id, d.webhook_id, e.event, e.job_id, e.org_id, e.body, windlass.micros(e.created_at), d.status, d.attempts,
       windlass.micros(d.next_attempt_at), d.taken, windlass.micros(d.finished_at), d.response, d.log
  from windlass.deliveries d join windlass.outbox e on e.event_id = d.event_id and e.created_at = d.event_at
 where d.event_id = :event_id and d.webhook_id = :webhook_id;

-- name: keep_events
-- Who forgets events steps over those that somebody holds: what is asked for again does not go with one at that moment.
select from windlass.outbox where event_id = any(:ids::bigint[]) order by event_id for share;

-- name: lock_deliveries
select from windlass.deliveries
 where event_id = any(:events::bigint[]) and webhook_id = any(:webhooks::text[])
 order by event_id, webhook_id for no key update;

-- name: due_deliveries
-- Of each webhook those that are due longest: a slow one does not keep the others from being seen.
select d.event_id, d.webhook_id, e.event, e.job_id, e.org_id, e.body, windlass.micros(e.created_at), d.status, d.attempts,
       windlass.micros(d.next_attempt_at), d.taken, windlass.micros(d.finished_at), d.response, d.log
  from unnest(:webhooks::text[]) as w(webhook_id)
 cross join lateral (
       select * from windlass.deliveries x
        where x.webhook_id = w.webhook_id and x.status = 'queued' and x.next_attempt_at <= windlass.at(:by)
        order by x.next_attempt_at, x.event_id limit :each) d
  join windlass.outbox e on e.event_id = d.event_id and e.created_at = d.event_at
 order by d.next_attempt_at, d.event_id, d.webhook_id;

-- name: deliveries_of
select d.event_id, d.webhook_id, e.event, e.job_id, e.org_id, e.body, windlass.micros(e.created_at), d.status, d.attempts,
       windlass.micros(d.next_attempt_at), d.taken, windlass.micros(d.finished_at), d.response, d.log
  from (select * from windlass.deliveries
         where webhook_id = :webhook_id and status = :status and event_id < :before
         order by event_id desc limit :limit) d
  join windlass.outbox e on e.event_id = d.event_id and e.created_at = d.event_at
 order by d.event_id desc;

-- name: write_delivery
update windlass.deliveries
   set status = :status, attempts = :attempts, next_attempt_at = windlass.at(:next_attempt_at), taken = :taken,
       finished_at = windlass.at(:finished_at), response = :response, log = :log
 where event_id = :event_id and webhook_id = :webhook_id;

-- name: delete_deliveries_to
delete from windlass.deliveries where webhook_id = :webhook_id;

-- name: forgettable
select e.event_id from windlass.outbox e
 where e.fanned_at is not null and e.created_at <= windlass.at(:before) and not exists (
       select from windlass.deliveries d join windlass.webhooks w on w.webhook_id = d.webhook_id and w.enabled
        where d.event_id = e.event_id and d.event_at = e.created_at and d.status = 'queued')
 order by e.created_at, e.event_id limit :limit
   for no key update of e skip locked;

-- name: forgettable_still
-- Of these, which are held now: somebody may have asked for one again between the look and the lock.
select e.event_id from windlass.outbox e
 where e.event_id = any(:ids::bigint[]) and not exists (
       select from windlass.deliveries d join windlass.webhooks w on w.webhook_id = d.webhook_id and w.enabled
        where d.event_id = e.event_id and d.event_at = e.created_at and d.status = 'queued');

-- name: delete_deliveries
delete from windlass.deliveries where event_id = any(:ids::bigint[]);

-- name: delete_events
delete from windlass.outbox where event_id = any(:ids::bigint[]);
