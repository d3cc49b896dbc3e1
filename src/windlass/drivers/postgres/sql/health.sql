-- What the server knows of itself and of our schema. Catalogs and statistics only: no row of ours is read.

-- name: server_facts
select current_setting('server_version'), pg_is_in_recovery(), current_setting('autovacuum')::boolean,
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
  (select count(*) from pg_stat_activity where datid is not null), current_user::text,
  pg_has_role('pg_read_all_stats', 'usage'), current_setting('fsync')::boolean, current_setting('synchronous_commit'),
  current_setting('default_transaction_read_only')::boolean, current_setting('default_transaction_isolation');

-- name: lacking_rights
-- What a worker needs and this role may not do, table by table; and whether it may change any at all. What a worker only
-- reads, or does not touch, is not asked for: `migrations` is written by whoever migrates,
-- `api_tokens` by people, and `audit` is only added to. deploy/postgres/roles.sql
with needs (names, verbs) as (values
  ('{migrations}'::text[], '{select}'::text[]), ('{api_tokens}', '{}'), ('{audit}', '{insert}'),
  ('{webhooks}', '{select,update}'),
  ('{meta,queues,templates,schedules}', '{select,insert,update}')
), relations as (
  select c.oid, c.relname, c.relkind,
    coalesce((select verbs from needs where c.relname = any(names)), '{select,insert,update,delete}') as verbs
  from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = :schema
    and c.relkind in ('r', 'p', 'S') and not c.relispartition  -- the rights to a partition are those to its table
)
select relname, (select bool_or(has_any_column_privilege(oid, 'insert, update')) from relations where relkind <> 'S')
from relations
where case when relkind = 'S' then relname in ('jobs_seq', 'outbox_event_id_seq') and not has_sequence_privilege(oid, 'usage')
           else exists (select from unnest(verbs) verb where not has_table_privilege(oid, verb)) end
order by 1;

-- name: index_states
select i.relname, x.indisvalid and x.indisready from pg_index x join pg_class i on i.oid = x.indexrelid
  join pg_namespace n on n.oid = i.relnamespace
where n.nspname = :schema;

-- name: table_health
select s.relname, s.n_live_tup, s.n_dead_tup, s.n_mod_since_analyze,
  greatest(s.last_analyze, s.last_autoanalyze) is not null,
  extract(epoch from windlass.at(:now) - greatest(s.last_vacuum, s.last_autovacuum))::bigint,
  exists (select from unnest(c.reloptions) o where o = 'autovacuum_enabled=false')
from pg_stat_user_tables s join pg_class c on c.oid = s.relid
where s.schemaname = :schema order by s.relname;

-- name: old_transactions
-- Of this database only: vacuum here does not wait for those of others.
select pid, usename::text, application_name, state, extract(epoch from windlass.at(:now) - xact_start)::bigint,
  to_char(query_start at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS'), left(query, 80)
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and (backend_xmin is not null or backend_xid is not null)
  and xact_start < windlass.at(:now) - :seconds * interval '1 second'
order by xact_start limit 5;

-- name: prepared_transactions
select quote_literal(gid), owner::text, extract(epoch from windlass.at(:now) - prepared)::bigint from pg_prepared_xacts
where database = current_database() and prepared < windlass.at(:now) - :seconds * interval '1 second'
order by prepared limit 5;

-- name: idle_slots
select slot_name::text, slot_type, coalesce(age(xmin), age(catalog_xmin), 0)::bigint from pg_replication_slots
where not active order by slot_name limit 5;

-- name: lock_blockers
-- Who keeps sessions that work on our tables waiting, with how many of them and for how long.
with waiting as (
  select l.pid, min(l.waitstart) as since from pg_locks l
  where not l.granted and l.waitstart < windlass.at(:now) - :seconds * interval '1 second'
    and exists (select from pg_locks m join pg_class c on c.oid = m.relation join pg_namespace n on n.oid = c.relnamespace
                where m.pid = l.pid and n.nspname = :schema)
  group by l.pid)
select a.pid, a.usename::text, a.application_name, a.state, count(distinct w.pid),
  extract(epoch from windlass.at(:now) - min(w.since))::bigint, left(a.query, 80)
from waiting w cross join unnest(pg_blocking_pids(w.pid)) as b (pid) join pg_stat_activity a on a.pid = b.pid
where b.pid not in (select pid from waiting)
group by 1, 2, 3, 4, 7 order by 6 desc limit 5;

-- name: role_facts
-- What travels to us encrypted, and what else this role may do: all, make roles, change the schema, rewrite the audit log.
select coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false), r.rolsuper, r.rolcreaterole,
  pg_has_role(n.nspowner, 'usage'), has_table_privilege('windlass.audit', 'update, delete, truncate')
from pg_roles r cross join pg_namespace n
where r.rolname = current_user and n.nspname = :schema;

-- name: public_rights
select distinct c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace, aclexplode(c.relacl) a
where n.nspname = :schema and c.relkind in ('r', 'p') and a.grantee = 0 order by 1;
