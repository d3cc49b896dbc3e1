-- Who may do what on a store in PostgreSQL: five roles without a login, for your own users to be members of.
--
--   owner     makes and changes the schema: `windlass migrate`
--   producer  enqueues, and reads what became of it
--   worker    all of that, and claims, settles, beats, leads, maintains, sends to webhooks
--   observer  looks: lists, pages, metrics, the doctor. Not the secrets of webhooks, and so not their page
--   operator  looks and enqueues, and changes what people change: jobs, queues, schedules, limits, webhooks, tokens
--
-- Run it by psql as a superuser, or as one with CREATEROLE who owns the database and thereby becomes an owner: once before the first
-- `windlass migrate`, and again after each one. It may be run at any time: all of it is one transaction, and what was
-- granted by hand to these roles on our tables is taken back.
--
--   psql -v schema=windlass -v prefix=windlass -f roles.sql "$ADMIN_URL"
--
-- Then, for each login:  create role shop_web login password '…' in role windlass_producer;
-- and for the one who migrates:  create role shop_migrate login password '…' in role windlass_owner;
--                                alter role shop_migrate set role windlass_owner;
\set ON_ERROR_STOP on
\if :{?schema}
\else
  \set schema windlass
\endif
\if :{?prefix}
\else
  \set prefix windlass
\endif
\set owner :prefix _owner
\set producer :prefix _producer
\set worker :prefix _worker
\set observer :prefix _observer
\set operator :prefix _operator

begin;
select format('create role %I nologin', name)
  from unnest(array[:'owner', :'producer', :'worker', :'observer', :'operator']) name
 where not exists (select from pg_roles where rolname = name) \gexec
-- Only a member of the owner's role may give rights to its tables; a superuser is one of every role.
select format('grant %I to current_user', :'owner') where not pg_has_role(:'owner', 'usage') \gexec
grant connect, create on database :"DBNAME" to :"owner";
grant connect on database :"DBNAME" to :"producer", :"worker", :"observer", :"operator";

select to_regclass(format('%I.jobs', :'schema')) is not null as made \gset
\if :made
revoke all on all tables in schema :"schema" from :"producer", :"worker", :"observer", :"operator";
revoke all on all sequences in schema :"schema" from :"producer", :"worker", :"observer", :"operator";
grant usage on schema :"schema" to :"producer", :"worker", :"observer", :"operator";
set local search_path = :"schema";

-- Everybody sees which schema this is.
grant select on meta, migrations to :"producer", :"worker", :"observer", :"operator";

-- Enqueueing. Of a stored job that is: to replace a duplicate that waits, to make one wait for others, and to end one at
-- once whose parent is dead, with its run, and to tell those who asked to hear of it. Never a lease, an attempt, a result.
grant usage on sequence jobs_seq, outbox_event_id_seq to :"producer", :"worker", :"operator";
grant select, insert on jobs, runs, outbox to :"producer";
grant update (payload, codec, headers, run_at, ready, parked_on, waiting_on, after_rule, awaited, updated_at,
              state, finished_at, last_error, executions, skipped, share, permits) on jobs to :"producer";
grant update (status) on runs to :"producer";
grant select, insert, update on idempotency_keys, dependencies, groups to :"producer", :"worker", :"operator";
grant delete on dependencies to :"producer", :"worker", :"operator";
grant select (webhook_id, url, events, org_id, enabled, created_at, old_until, disabled_reason) on webhooks
  to :"producer", :"observer";
-- What programs declare (`app.queue`, `app.limit`) is written by the first who starts. That one is paused is not among it.
grant select, insert (name, positions, preset, settings, fairness, age_after, age_to, created_at, updated_at),
  update (positions, preset, settings, fairness, age_after, age_to, turning, updated_at) on queues to :"producer";
grant select, insert, update on limits to :"producer";
grant select, delete on barrier to :"producer";  -- it is always empty: a lock

-- Working: what is claimed, settled, beaten, led, taken back, pruned, fired, announced and delivered.
grant delete on idempotency_keys, groups to :"worker";
grant select, insert, update, delete on
  jobs, runs, limits, shares, barrier, reservations, workers, leader, queue_stats, usage_batches, usage_hourly, usage_daily,
  outbox, deliveries to :"worker";
grant select, insert, update on queues, templates, schedules to :"worker";  -- those that programs declare
grant select, update on webhooks to :"worker";  -- one that never answers is switched off
grant insert, update on meta to :"worker";      -- how far usage is added up
grant insert on audit to :"worker";             -- that a hold has ended, that a webhook was switched off

-- Looking.
grant select on
  jobs, runs, idempotency_keys, dependencies, groups, limits, barrier, shares, queues, queue_stats, workers, leader,
  reservations, templates, schedules, outbox, deliveries, usage_batches, usage_hourly, usage_daily, api_tokens, audit
  to :"observer", :"operator";

-- Operating: what is changed by people, and that it is written down who did it. Nobody may rewrite the audit log.
grant delete on groups to :"operator";
grant insert, update, delete on jobs, runs, limits, barrier, shares, queues, reservations, templates, schedules, outbox, deliveries
  to :"operator";
grant select, insert, update, delete on webhooks to :"operator";
grant insert, update on api_tokens to :"operator";
grant insert on audit to :"operator";
grant insert, update on meta to :"operator";    -- who waits for a limit that was removed
commit;
\else
commit;
\echo 'The roles are made. Now run windlass migrate as the owner, then this script once more.'
\endif
