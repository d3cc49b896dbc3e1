-- Partitions of time, made ahead and dropped whole: migrations/0001_windlass.sql has the functions.

-- name: add_partitions
select windlass.add_partitions(:parents::text[], windlass.at(lower), windlass.at(upper))
  from unnest(:lowers::bigint[], :uppers::bigint[]) as span (lower, upper);

-- name: old_partitions
select windlass.old_partitions(:parent, windlass.at(:before));

-- name: drop_days
-- Events that are not fanned out yet, and deliveries that are still to be made, are needed.
select windlass.drop_partitions(array['outbox', 'deliveries'], :suffix, format(
  'select exists (select from windlass.outbox%1$s where fanned_at is null)
       or exists (select from windlass.deliveries%1$s d join windlass.webhooks w on w.webhook_id = d.webhook_id and w.enabled
                   where d.status = ''queued'')', :suffix::text));

-- name: drop_month
select windlass.drop_partitions(array['usage_hourly'], :suffix, '');
