-- Events and where they go. core/events.py says what is announced, core/webhooks.py what becomes of a delivery.

-- name: put_webhook
insert into webhooks (webhook_id, url, events, secret, org_id, enabled, created_at, old_secret, old_until, disabled_reason)
values (:webhook_id, :url, :events, :secret, :org_id, :enabled, :created_at, :old_secret, :old_until, :disabled_reason)
on conflict (webhook_id) do update set url = excluded.url, events = excluded.events, secret = excluded.secret,
       org_id = excluded.org_id, enabled = excluded.enabled, old_secret = excluded.old_secret,
       old_until = excluded.old_until, disabled_reason = excluded.disabled_reason;

-- name: all_webhooks
select webhook_id, url, events, secret, org_id, enabled, created_at, old_secret, old_until, disabled_reason
  from webhooks order by webhook_id;

-- name: subscribers
select webhook_id, url, events, '', org_id, enabled, created_at, null, old_until, disabled_reason
  from webhooks order by webhook_id;

-- name: delete_webhook
delete from webhooks where webhook_id = :webhook_id;

-- name: disable_webhook
-- Unless something was sent to it since then.
update webhooks set enabled = 0, disabled_reason = :reason
 where webhook_id = :webhook_id and enabled
   and (:since is null or not exists (
        select 1 from deliveries d
         where d.webhook_id = :webhook_id and d.status = 'sent' and d.finished_at >= :since))
returning webhook_id;

-- name: orgs_in_group
select distinct org_id from jobs indexed by jobs_group where group_id = :group_id;

-- name: all_events
select event, job_id, org_id, body, created_at, event_id, fanned_at from outbox order by event_id;

-- name: waiting_events
select event, job_id, org_id, body, created_at, event_id, fanned_at from outbox
 where fanned_at is null order by event_id limit :limit;

-- name: fan_events
update outbox set fanned_at = :now where event_id in (select value from json_each(:ids));

-- name: add_fanned_event
insert into outbox (event, job_id, org_id, body, created_at, fanned_at)
values (:event, :job_id, :org_id, :body, :now, :now)
returning event_id;

-- name: insert_deliveries
insert into deliveries (event_id, webhook_id, next_attempt_at)
select value ->> 0, value ->> 1, :now from json_each(:items) where true
on conflict (event_id, webhook_id) do nothing;

-- name: get_delivery
select d.event_id, d.webhook_id, e.event, e.job_id, e.org_id, e.body, e.created_at, d.status, d.attempts, d.next_attempt_at,
       d.taken, d.finished_at, d.response, d.log
  from deliveries d join outbox e on e.event_id = d.event_id
 where d.event_id = :event_id and d.webhook_id = :webhook_id;

-- name: due_deliveries
-- Of each webhook those that are due longest: a slow one does not keep the others from being seen.
select d.event_id, d.webhook_id, e.event, e.job_id, e.org_id, e.body, e.created_at, d.status, d.attempts, d.next_attempt_at,
       d.taken, d.finished_at, d.response, d.log
  from json_each(:webhooks) w
  join deliveries d on d.webhook_id = w.value and d.event_id in (
       select x.event_id from deliveries x indexed by deliveries_due
        where x.webhook_id = w.value and x.status = 'queued' and x.next_attempt_at <= :by
        order by x.next_attempt_at, x.event_id limit :each)
  join outbox e on e.event_id = d.event_id
 order by d.next_attempt_at, d.event_id, d.webhook_id;

-- name: deliveries_of
select d.event_id, d.webhook_id, e.event, e.job_id, e.org_id, e.body, e.created_at, d.status, d.attempts, d.next_attempt_at,
       d.taken, d.finished_at, d.response, d.log
  from deliveries d indexed by deliveries_of join outbox e on e.event_id = d.event_id
 where d.webhook_id = :webhook_id and d.status = :status and d.event_id < :before
 order by d.event_id desc limit :limit;

-- name: write_delivery
update deliveries
   set status = :status, attempts = :attempts, next_attempt_at = :next_attempt_at, taken = :taken,
       finished_at = :finished_at, response = :response, log = :log
 where event_id = :event_id and webhook_id = :webhook_id;

-- name: delete_deliveries_to
delete from deliveries where webhook_id = :webhook_id;

-- name: forgettable
select e.event_id from outbox e indexed by outbox_fanned
 where e.fanned_at is not null and e.created_at <= :before and not exists (
       select 1 from deliveries d join webhooks w on w.webhook_id = d.webhook_id and w.enabled
        where d.event_id = e.event_id and d.status = 'queued')
 order by e.created_at, e.event_id limit :limit;

-- name: forgettable_still
-- Nobody else writes between the look and this.
select value from json_each(:ids);

-- name: delete_deliveries
delete from deliveries where event_id in (select value from json_each(:ids));

-- name: delete_events
delete from outbox where event_id in (select value from json_each(:ids));
