-- Who wants to hear of events. core/events.py says what is announced.

-- name: put_webhook
insert into windlass.webhooks (webhook_id, url, events, secret, org_id, enabled, created_at)
values (:webhook_id, :url, :events::jsonb, :secret, :org_id, :enabled, windlass.at(:now))
on conflict (webhook_id) do update set url = excluded.url, events = excluded.events, secret = excluded.secret,
  org_id = excluded.org_id, enabled = excluded.enabled;

-- name: all_webhooks
select webhook_id, url, events::text, secret, org_id, enabled, windlass.micros(created_at) from windlass.webhooks order by webhook_id;
