-- Templates and schedules. core/templates.py: next_version; core/schedules.py: placed, switched.

-- name: newest_template
-- Column order: windlass.types.Template.
select template_id, version, name, type, queue, params, settings, windlass.micros(archived_at), windlass.micros(created_at)
  from windlass.templates where name = :name order by version desc limit 1;

-- name: newest_version
select template_id, version, name, type, queue, params, settings, windlass.micros(archived_at), windlass.micros(created_at)
  from windlass.templates where template_id = :template_id order by version desc limit 1;

-- name: template_versions
select version from windlass.templates where template_id = :template_id;

-- name: all_templates
-- The newest version of each.
select template_id, version, name, type, queue, params, settings, windlass.micros(archived_at), windlass.micros(created_at)
  from windlass.templates
 where version = (select max(version) from windlass.templates as other where other.template_id = windlass.templates.template_id)
 order by name;

-- name: versions_named
select template_id, version, name, type, queue, params, settings, windlass.micros(archived_at), windlass.micros(created_at)
  from windlass.templates where name = :name order by version;

-- name: insert_template
insert into windlass.templates (template_id, version, name, type, queue, params, settings, archived_at, created_at)
values (:template_id, :version, :name, :type, :queue, :params, :settings, windlass.at(:archived_at), windlass.at(:created_at));

-- name: archive_template
update windlass.templates set archived_at = windlass.at(:now) where template_id = :template_id and version = :version;

-- name: delete_template
delete from windlass.templates where template_id = :template_id;

-- name: schedules_of
select schedule_id from windlass.schedules where template_id = :template_id limit 1;

-- name: schedule_named
-- Column order: windlass.types.Schedule.
select schedule_id, template_id, name, cron_expression, timezone, enabled, param_overrides, catch_up, catch_up_cap, overlap, jitter,
       declared, windlass.micros(declared_at), windlass.micros(last_triggered_at), windlass.micros(next_trigger_at),
       windlass.micros(created_at), windlass.micros(updated_at)
  from windlass.schedules where name = :name;

-- name: get_schedule
select schedule_id, template_id, name, cron_expression, timezone, enabled, param_overrides, catch_up, catch_up_cap, overlap, jitter,
       declared, windlass.micros(declared_at), windlass.micros(last_triggered_at), windlass.micros(next_trigger_at),
       windlass.micros(created_at), windlass.micros(updated_at)
  from windlass.schedules where schedule_id = :schedule_id;

-- name: all_schedules
select schedule_id, template_id, name, cron_expression, timezone, enabled, param_overrides, catch_up, catch_up_cap, overlap, jitter,
       declared, windlass.micros(declared_at), windlass.micros(last_triggered_at), windlass.micros(next_trigger_at),
       windlass.micros(created_at), windlass.micros(updated_at)
  from windlass.schedules order by name;

-- name: due_schedules
select schedule_id, template_id, name, cron_expression, timezone, enabled, param_overrides, catch_up, catch_up_cap, overlap, jitter,
       declared, windlass.micros(declared_at), windlass.micros(last_triggered_at), windlass.micros(next_trigger_at),
       windlass.micros(created_at), windlass.micros(updated_at)
  from windlass.schedules where next_trigger_at <= windlass.at(:by) order by next_trigger_at, schedule_id limit :limit;

-- name: put_schedule
insert into windlass.schedules (
  schedule_id, template_id, name, cron_expression, timezone, enabled, param_overrides, catch_up, catch_up_cap, overlap,
  jitter, declared, declared_at, last_triggered_at, next_trigger_at, created_at, updated_at)
values (
  :schedule_id, :template_id, :name, :cron_expression, :timezone, :enabled, :param_overrides, :catch_up, :catch_up_cap,
  :overlap, :jitter, :declared, windlass.at(:declared_at), windlass.at(:last_triggered_at), windlass.at(:next_trigger_at),
  windlass.at(:created_at), windlass.at(:updated_at))
on conflict (schedule_id) do update
   set template_id = excluded.template_id, name = excluded.name, cron_expression = excluded.cron_expression,
       timezone = excluded.timezone, enabled = excluded.enabled, param_overrides = excluded.param_overrides,
       catch_up = excluded.catch_up, catch_up_cap = excluded.catch_up_cap, overlap = excluded.overlap,
       jitter = excluded.jitter, declared = excluded.declared, declared_at = excluded.declared_at,
       last_triggered_at = excluded.last_triggered_at, next_trigger_at = excluded.next_trigger_at,
       updated_at = excluded.updated_at;

-- name: delete_schedule
delete from windlass.schedules where name = :name returning schedule_id;

-- name: move_on
update windlass.schedules
   set last_triggered_at = windlass.at(:last_triggered_at), next_trigger_at = windlass.at(:next_trigger_at),
       updated_at = windlass.at(:updated_at)
 where schedule_id = :schedule_id;

-- name: unfinished_of
-- Links of a retry chain belong to the schedule of the first.
select distinct state from windlass.jobs where schedule_id = :schedule_id and state in ('queued', 'running');

-- name: hold_templates
-- Who makes or changes templates and schedules does so alone: two who put the same new name would not see each other. Who
-- reads, and who fires, does not wait for it.
lock table windlass.templates in share row exclusive mode;

-- name: lock_schedules
select schedule_id from windlass.schedules where schedule_id = any(:ids::text[]) order by schedule_id for no key update;

-- name: lock_schedule_named
select schedule_id from windlass.schedules where name = :name for no key update;
