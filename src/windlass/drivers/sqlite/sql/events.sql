-- Who wants to hear of events. core/events.py says what is announced.

-- name: put_webhook
insert into webhooks (webhook_id, url, events, secret, org_id, enabled, created_at)
values (:webhook_id, :url, :events, :secret, :org_id, :enabled, :now)
on conflict (webhook_id) do update set url = excluded.url, events = excluded.events, secret = excluded.secret,
  org_id = excluded.org_id, enabled = excluded.enabled;

-- name: all_webhooks
select webhook_id, url, events, secret, org_id, enabled, created_at from webhooks order by webhook_id;
