-- The whole schema. `windlass` stands for the schema that the store was given. Durations are microseconds, except
-- jobs.timeout_ns. Column defaults exist so that `insert into jobs (type) values ('x')` by hand makes a good row; the engine
-- itself always binds every value and never relies on them.
--
-- The CHECKs are the second half of assertions made in core/: a row that breaks one cannot be stored.
-- The triggers only raise, but for two that complete what a hand wrote. Their bodies never run on the hot path, only their WHEN clauses are evaluated; `after` the update,
-- because before it the server would lock each row once more; where what is frozen says which partition a row is in, before it,
-- because a row that moves is deleted and inserted, and no trigger runs after an update (docs/adr/0010).
-- Text that is compared or sorted is `collate "C"`: the same order in every database, and the one that Python has.

-- ------------------------------------------------------------------------------------------------------------ time

-- An instant in microseconds since 1970 ⇄ timestamptz, exact over the whole range of both. An interval is multiplied as a
-- double, so the two halves of the number go separately: each product is a whole number that a double holds. `extract` is
-- only exact up to 31 years before the end of the range, so it is asked about 1e9 seconds earlier. Of our times a double holds
-- every microsecond, and is several times quicker.
create function windlass.at(us bigint) returns timestamptz language sql stable strict parallel safe as
  $$ select timestamptz 'epoch' + (us >> 32) * interval '4294967296 microseconds' + (us & 4294967295) * interval '1 microsecond' $$;
create function windlass.micros(instant timestamptz) returns bigint language sql stable parallel safe as
  $$ select case when instant > timestamptz '1900-01-01 00:00:00+00' and instant < timestamptz '2100-01-01 00:00:00+00'
                 then (date_part('epoch', instant) * 1000000)::bigint
                 else (extract(epoch from instant - interval '1000000000 seconds') * 1000000)::bigint + 1000000000000000 end $$;

-- The engine's updated_at: strictly larger with every write, whatever the clock does, so that it doubles as a revision.
create function windlass.touched(updated_at timestamptz, now bigint) returns timestamptz language sql stable parallel safe as
  $$ select greatest(windlass.at(now), updated_at + interval '1 microsecond') $$;
create function windlass.later(updated_at timestamptz, now timestamptz) returns timestamptz language sql stable parallel safe as
  $$ select greatest(now, updated_at + interval '1 microsecond') $$;

-- As run ids end: at least twelve digits.
create function windlass.in_hex(seq bigint) returns text language sql immutable parallel safe as
  $$ select case when seq < 281474976710656 then lpad(to_hex(seq), 12, '0') else to_hex(seq) end $$;

create function windlass.refuse() returns trigger language plpgsql as
  $$ begin raise exception '%', tg_argv[0] using errcode = 'integrity_constraint_violation'; end $$;

-- ----------------------------------------------------------------------------------------------------------- jobs

-- What may stand in a column by itself is said by its type, which is looked at only when that column is written; a CHECK of the
-- table is looked at by every update of the row.

-- From 1970 to the year 9999, which Python's datetime holds in every time zone (clock.py: LAST_INSTANT).
create domain windlass.instant as timestamptz
  constraint instants_are_dated check (value between '1970-01-01 00:00:00+00' and '9999-01-01 00:00:00+00');
create domain windlass.revision as timestamptz
  constraint instants_are_dated check (value between '1970-01-01 00:00:00+00' and '9999-12-30 00:00:00+00');

-- A row at the end of what can be counted would be refused its next step, and with it the claim of everybody who meets it.
-- attempts, lost and position stop at their bounds (core/counters.py); executions and updated_at go on by ones from what a
-- hand may write, which triggers bound, and do not get from there to here.
create domain windlass.natural as bigint constraint counters_positive check (value >= 0);
create domain windlass.counter as bigint constraint counters_can_count check (value between 0 and 9007199254740992);
create domain windlass.place as bigint
  constraint counters_can_count check (value > -4611686018427387904 and value < 4611686018427387904);

create domain windlass.name as text collate "C" constraint names_bounded check (length(value) between 1 and 200);
create domain windlass.retry_mode as text collate "C" constraint policies_known check (value in ('same_job', 'new_job'));
create domain windlass.crash_policy as text collate "C" constraint policies_known check (value in ('requeue', 'fail'));
create domain windlass.unknown_policy as text collate "C" constraint policies_known check (value in ('wait', 'dead'));
create domain windlass.after_rule as text collate "C" constraint policies_known check (value in ('cancel', 'continue'));
create domain windlass.dead_kind as text collate "C"
  constraint dead_kind_known check (value in ('exhausted', 'rejected', 'lost', 'superseded'));

-- What a claim has to read, for all jobs at once: one that cannot be read would stop everybody.
create domain windlass.texts as jsonb constraint lists_are_lists
  check (jsonb_typeof(value) = 'array' and not value @? 'strict $[*] ? (@.type() != "string")');
create domain windlass.text_map as jsonb constraint lists_are_lists
  check (jsonb_typeof(value) = 'object' and not value @? 'strict $.* ? (@.type() != "string")');

create sequence windlass.jobs_seq as bigint;

create table windlass.jobs (
  seq                 bigint                   not null unique with (fillfactor = 50) default nextval('windlass.jobs_seq'), -- handles and positions rest on it
  position            windlass.place           not null,                 -- filled by the trigger below when a hand leaves it out
  created_at          windlass.instant         not null default clock_timestamp(),
  queued_at           windlass.instant         not null default clock_timestamp(),
  updated_at          windlass.revision        not null default clock_timestamp(),
  timeout_ns          windlass.natural         not null default 0,
  attempts            windlass.counter         not null default 0,       -- recorded failures
  executions          windlass.natural         not null default 0,       -- runs, of which each has a row unless `history` says otherwise
  skipped             windlass.natural         not null default 0,       -- runs that were released, snoozed or cancelled
  lost                windlass.counter         not null default 0,       -- leases that expired or were revoked
  max_attempts        windlass.natural         not null default 0,       -- total executions allowed; 0 = unset
  max_lost            windlass.natural         not null default 0,       -- 0 = reclaimed for ever
  priority            integer                  not null default 0,
  waiting_on          integer                  not null default 0,       -- predecessors that have not finished
  ready               boolean                  not null default true,    -- due, no unfinished predecessor, not parked
  awaited             boolean                  not null default false,   -- others wait for it; once it has ended: and were not all told
  manual              boolean                  not null default false,
  id                  windlass.name            primary key with (fillfactor = 50) default gen_random_uuid()::text,
  queue               windlass.name            not null default 'default',
  type                windlass.name            not null,
  state               text collate "C"         not null default 'queued',
  retry_mode          windlass.retry_mode      not null default 'same_job',
  crash_policy        windlass.crash_policy    not null default 'requeue',
  on_unknown          windlass.unknown_policy  not null default 'wait',
  after_rule          windlass.after_rule      not null default 'cancel', -- when a predecessor ends badly
  finished_at         windlass.instant,
  lease_expires_at    windlass.instant,
  run_at              windlass.instant,                                  -- null = now
  dead_at             windlass.instant,
  share               text collate "C",                                  -- whose turn it takes in a fair queue; null in others
  parked_on           text collate "C",                                  -- the limit key this job waits for
  dead_kind           windlass.dead_kind,
  group_id            text collate "C",
  group_seq           bigint,
  dedupe_key          text collate "C",
  retry_of            text collate "C",
  schedule_id         text collate "C",
  fire_at             windlass.instant,
  lease_token         text collate "C",
  worker_id           text collate "C",
  claimed_at          windlass.instant,
  started_at          windlass.instant,
  org_id              text collate "C",
  failed_at           windlass.instant,
  last_token          text collate "C",
  last_outcome        text collate "C",
  dead_reason         text,
  history             text collate "C",                                  -- null = full; 'failures' = executions that succeed leave no run
  retry_policy        text,
  idempotency_scope   text collate "C",
  idempotency_key     text collate "C",
  template_id         text collate "C",
  template_version    bigint,
  limit_keys          windlass.texts,                                    -- array of keys
  permits             jsonb,                                             -- array of keys: the limits that its lease is counted in
  aged_at             windlass.instant,                                  -- when its priority was last raised for waiting
  tags                windlass.texts,                                    -- array of names
  superseded_by       text collate "C",
  cancel_requested_at windlass.instant,
  progress            double precision,
  progress_note       text,
  headers             windlass.text_map,                                 -- object of texts
  codec               text                     not null default 'json',
  last_error          text                     not null default '',
  result              bytea,
  payload             bytea                    not null default '{}',

  constraint state_known        check (state in ('running', 'succeeded', 'queued', 'dead', 'cancelled')),
  constraint lease_is_a_pair    check ((lease_token is null) = (lease_expires_at is null)),
  constraint running_is_leased  check ((state = 'running') = (lease_token is not null)),
  -- What lapses goes back to the queue; of a run without a row the claim is all that is known, and is written down then.
  constraint running_goes_back  check (state <> 'running' or (ready and (history is null or (executions > 0 and claimed_at is not null)))),
  constraint permits_are_leased check (permits is null or (state = 'running' and jsonb_typeof(permits) = 'array')),
  constraint terminal_finished  check ((state not in ('running', 'queued')) = (finished_at is not null)),
  constraint dead_is_explained  check ((state = 'dead') = (dead_kind is not null) and (dead_kind is null) = (dead_at is null)),
  constraint superseded_by_one  check (dead_kind is null or dead_kind <> 'superseded' or superseded_by is not null),
  constraint ready_is_free      check (not ready or (waiting_on = 0 and parked_on is null)),
  constraint counters_positive  check (waiting_on >= 0 and skipped <= executions),
  constraint counters_can_count check (executions < 4611686018427387904 and seq between 1 and 46116860184273878),
  constraint one_run_per_link   check (retry_mode = 'same_job' or (crash_policy = 'fail' and executions <= (state <> 'queued')::int)),
  constraint history_known      check (history is null or (history = 'failures' and retry_mode = 'same_job')),
  constraint key_is_scoped      check ((idempotency_key is null) = (idempotency_scope is null))
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05,
        autovacuum_vacuum_cost_limit = 1000);               -- docs/adr/0020

alter sequence windlass.jobs_seq owned by windlass.jobs.seq;

-- Each index is partial, so that a row sits in those only whose question it may answer: while it is queued, of what is ready or
-- not, of its turn and of what it waits for; while it runs, of leases; when it has ended, of ends, of what it owes and of the
-- dead; and as long as it is there, or open, in those of its group, keys, chain and schedule.
create index jobs_ready    on windlass.jobs (queue, priority desc, position, created_at, seq) where ready and state = 'queued';
create index jobs_unready  on windlass.jobs (queue, priority desc, position, created_at, seq) where case when not ready then state end = 'queued';  -- so said, no claim thinks of it
create index jobs_fair     on windlass.jobs (queue, share, priority desc, position, created_at, seq) where share is not null and ready and state = 'queued';
create index jobs_waiting  on windlass.jobs (queue, run_at, seq) where not ready and waiting_on = 0 and parked_on is null and state = 'queued';
create index jobs_parked   on windlass.jobs (parked_on, queue, type, share, priority desc, position, created_at, seq) where parked_on is not null and state = 'queued';
create index jobs_blocked  on windlass.jobs (queue, seq) where waiting_on > 0 and state = 'queued';
create index jobs_leased   on windlass.jobs (queue, lease_expires_at, seq) where state = 'running';
create index jobs_finished on windlass.jobs (state, finished_at, seq) where finished_at is not null;
create index jobs_owing    on windlass.jobs (seq) where awaited and finished_at is not null;
create index jobs_dead     on windlass.jobs (queue, dead_at) where dead_kind <> 'superseded' and state = 'dead';
create index jobs_group    on windlass.jobs (group_id, group_seq) where group_id is not null;
create unique index jobs_dedupe        on windlass.jobs (dedupe_key) where dedupe_key is not null and state in ('queued', 'running');
create unique index jobs_retry_of      on windlass.jobs (retry_of)   where retry_of is not null and not manual;
create index        jobs_manual_retry  on windlass.jobs (retry_of)   where retry_of is not null and manual;
create index        jobs_schedule      on windlass.jobs (schedule_id) where schedule_id is not null and state in ('queued', 'running');
create index        jobs_made          on windlass.jobs (schedule_id, seq) where schedule_id is not null;  -- all of them, for listings
create unique index jobs_fire          on windlass.jobs (schedule_id, fire_at) where schedule_id is not null and fire_at is not null and retry_of is null;

-- One trigger for both, because each would cost every row of the engine's own a look. A copy (ops/copying.py: KEY) brings rows
-- that have been counted on from there.
create function windlass.place_at_tail() returns trigger language plpgsql as $$
begin
  if (new.executions > 9007199254740992 or new.updated_at > '9999-01-01 00:00:00+00')
     and not exists (select from windlass.meta where key = 'copier') then
    raise exception 'executions and updated_at begin where they can still be counted on' using errcode = 'integrity_constraint_violation';
  end if;
  new.position := coalesce(new.position, 100 * new.seq);
  return new;
end $$;
create trigger jobs_default_position before insert on windlass.jobs for each row
  when (new.position is null or new.executions > 9007199254740992 or new.updated_at > '9999-01-01 00:00:00+00')
  execute function windlass.place_at_tail();

-- The engine always writes a larger updated_at; only a hand-made update leaves it as it was. With the owner's rights: a hand may
-- be allowed to change one column and not this one. Nobody but the owner may make a trigger of it.
create function windlass.touch() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update windlass.jobs set updated_at = greatest(updated_at + interval '1 microsecond', clock_timestamp()) where seq = new.seq;
  return null;
end $$;
revoke execute on function windlass.touch() from public;
create trigger jobs_touch after update on windlass.jobs
  for each row when (new.updated_at = old.updated_at) execute function windlass.touch();

-- What goes on by ones does so from where there is room for it: core/counters.py, and the trigger on insert above.
create trigger jobs_count_by_ones after update of executions, updated_at on windlass.jobs for each row
  when (new.executions < old.executions or (new.executions > 9007199254740992 and new.executions > old.executions + 1)
    or (new.updated_at > '9999-01-01 00:00:00+00' and new.updated_at > old.updated_at + interval '1 microsecond'))
  execute function windlass.refuse('executions and updated_at go up, and by ones where little room is left');

create trigger jobs_frozen after update of seq, id, type, org_id, template_id, template_version, schedule_id, fire_at, group_id,
  group_seq, retry_of, manual, retry_mode, crash_policy, history, created_at, queued_at on windlass.jobs for each row
  when (new.seq <> old.seq or new.id <> old.id or new.type <> old.type or new.org_id is distinct from old.org_id
    or new.template_id is distinct from old.template_id or new.template_version is distinct from old.template_version
    or new.schedule_id is distinct from old.schedule_id or new.fire_at is distinct from old.fire_at
    or new.group_id is distinct from old.group_id or new.group_seq is distinct from old.group_seq
    or new.retry_of is distinct from old.retry_of or new.manual <> old.manual or new.retry_mode <> old.retry_mode
    or new.crash_policy <> old.crash_policy or new.history is distinct from old.history or new.created_at <> old.created_at or new.queued_at <> old.queued_at)
  execute function windlass.refuse('this column of a job never changes');

create trigger jobs_payload_frozen after update of payload, codec, headers on windlass.jobs for each row
  when (old.executions > 0 and (new.payload <> old.payload or new.codec <> old.codec or new.headers is distinct from old.headers))
  execute function windlass.refuse('the payload is frozen once a job has been claimed');

create trigger jobs_order_frozen after update of priority, position on windlass.jobs for each row
  when (old.state <> 'queued' and (new.priority <> old.priority or new.position <> old.position))
  execute function windlass.refuse('priority and position change only while a job is queued');

create trigger jobs_one_way after update of state on windlass.jobs for each row
  when (new.state <> old.state and case old.state
      when 'queued' then new.state = 'succeeded'
      when 'running' then new.state = 'queued' and old.retry_mode = 'new_job'
      when 'dead' then new.state <> 'queued' or old.retry_mode = 'new_job' or old.dead_kind = 'superseded'
      else true end)
  execute function windlass.refuse('a job does not make this change of state');

create trigger jobs_started_once after update of started_at on windlass.jobs for each row
  when (new.started_at is distinct from old.started_at
    and not (old.state = 'queued' and new.state = 'running') and not (old.state = 'running' and old.started_at is null))
  execute function windlass.refuse('started_at is written once per execution');

create trigger jobs_ended_once after update of finished_at, dead_at, dead_kind, dead_reason on windlass.jobs for each row
  when (old.finished_at is not null and new.state = old.state
    and (new.finished_at is distinct from old.finished_at or new.dead_at is distinct from old.dead_at
         or new.dead_reason is distinct from old.dead_reason
         or (new.dead_kind is distinct from old.dead_kind and new.dead_kind is distinct from 'superseded')))
  execute function windlass.refuse('how and when a job ended is written once');

create trigger jobs_delete before delete on windlass.jobs for each row
  when (old.state not in ('succeeded', 'dead', 'cancelled'))
  execute function windlass.refuse('only a finished job may be deleted');

-- ----------------------------------------------------------------------------------------------------------- runs

-- One execution each. The row is also the usage event: who, what, outcome, wait, CPU, memory.
-- run_id ends in the job's seq (hex), which is how a run is found by its id without an index of its own.
-- Its end is written in place (fillfactor): no index holds a column that changes.
create table windlass.runs (
  job_seq          bigint  not null references windlass.jobs (seq) on delete cascade,
  attempt_no       bigint  not null,
  run_id           text    collate "C" not null,
  worker_id        text    collate "C",
  org_id           text    collate "C",
  queue            text    collate "C" not null,
  type             text    collate "C" not null,
  template_id      text    collate "C",
  template_version bigint,
  claimed_at       timestamptz not null,
  started_at       timestamptz,
  finished_at      timestamptz,
  status           text    collate "C",                     -- null while it runs
  wait_us          bigint,                                  -- from due to claimed
  cpu_us           bigint,
  peak_rss         bigint,
  exit_code        bigint,
  log_path         text,
  artifacts        jsonb   not null default '[]',           -- append-only
  params           bytea,                                   -- null = equal to the job's frozen payload
  error            text,
  traceback        text,
  primary key (job_seq, attempt_no),
  constraint status_known     check (status in ('completed', 'failed', 'skipped')),
  constraint ended_has_status check ((status is null) = (finished_at is null)),
  constraint ended_has_start  check (status is null or started_at is not null),
  constraint artifacts_array  check (jsonb_typeof(artifacts) = 'array'),
  constraint attempts_count   check (attempt_no >= 1)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_limit = 1000);

-- The roll-up of usage and the samples of the queues find runs by when they ended. Runs are written and end in the order of
-- time, so a few words per range of pages are enough: an ordinary index would cost every end of a run an entry.
create index runs_finished on windlass.runs using brin (finished_at) with (pages_per_range = 32, autosummarize = on);

create trigger runs_frozen after update of job_seq, attempt_no, run_id, worker_id, org_id, queue, type, template_id,
  template_version, claimed_at, wait_us, params on windlass.runs for each row
  when (new.job_seq <> old.job_seq or new.attempt_no <> old.attempt_no or new.run_id <> old.run_id
    or new.worker_id is distinct from old.worker_id or new.org_id is distinct from old.org_id or new.queue <> old.queue
    or new.type <> old.type or new.template_id is distinct from old.template_id
    or new.template_version is distinct from old.template_version or new.claimed_at <> old.claimed_at
    or new.wait_us is distinct from old.wait_us or new.params is distinct from old.params)
  execute function windlass.refuse('this column of a run never changes');

create trigger runs_started_once after update of started_at on windlass.runs for each row
  when (new.started_at is distinct from old.started_at and (old.started_at is not null or old.status is not null))
  execute function windlass.refuse('started_at of a run is written once');

create trigger runs_ended_once after update of status, finished_at, exit_code, error, traceback, log_path, cpu_us, peak_rss
  on windlass.runs for each row
  when (old.status is not null
    and (new.status is distinct from old.status or new.finished_at is distinct from old.finished_at
         or new.exit_code is distinct from old.exit_code or new.error is distinct from old.error
         or new.traceback is distinct from old.traceback or new.log_path is distinct from old.log_path
         or new.cpu_us is distinct from old.cpu_us or new.peak_rss is distinct from old.peak_rss))
  execute function windlass.refuse('a run that has ended never changes');

create function windlass.keep_artifacts() returns trigger language plpgsql as $$
begin
  if jsonb_array_length(new.artifacts) < jsonb_array_length(old.artifacts)
     or exists (select from jsonb_array_elements(old.artifacts) with ordinality as was (value, n)
                 where was.value is distinct from new.artifacts -> (was.n::int - 1)) then
    raise exception 'artifacts are append-only' using errcode = 'integrity_constraint_violation';
  end if;
  return new;
end $$;
create trigger runs_artifacts_append after update of artifacts on windlass.runs for each row
  when (new.artifacts is distinct from old.artifacts and old.artifacts <> '[]') execute function windlass.keep_artifacts();

-- A cascade deletes runs after their job is gone; everything else finds the job and is refused.
create function windlass.keep_runs() returns trigger language plpgsql as $$
begin
  if exists (select from windlass.jobs where seq = old.job_seq) then
    raise exception 'a run is deleted only together with its job' using errcode = 'integrity_constraint_violation';
  end if;
  return old;
end $$;
create trigger runs_delete before delete on windlass.runs for each row execute function windlass.keep_runs();

-- ------------------------------------------------------------------------------------- uniqueness and predecessors

create table windlass.idempotency_keys (
  scope      text collate "C" not null,
  key        text collate "C" not null,
  job_id     text collate "C" not null,                     -- outlives the job: no foreign key
  expires_at timestamptz,                                   -- null = for ever
  primary key (scope, key)
);
create index idempotency_keys_expiring on windlass.idempotency_keys (expires_at) where expires_at is not null;

create table windlass.dependencies (
  job_seq   bigint not null references windlass.jobs (seq) on delete cascade,
  parent_id text   collate "C" not null,                    -- outlives the parent: no foreign key
  rule      text   collate "C" not null default 'cancel' check (rule in ('cancel', 'continue')),  -- when the parent ends badly
  done      boolean not null default false,                 -- the parent's end was told
  primary key (parent_id, job_seq)
);
create index dependencies_job  on windlass.dependencies (job_seq);
create index dependencies_open on windlass.dependencies (parent_id, job_seq) where not done;

create table windlass.groups (
  group_id    text    collate "C" primary key,
  name        text    not null default '',
  mode        text    not null default 'parallel' check (mode in ('parallel', 'sequential')),
  on_failure  text    not null default 'stop' check (on_failure in ('stop', 'continue', 'skip')),
  total       bigint  not null default 0 check (total >= 0),
  remaining   bigint  not null default 0 check (remaining >= 0),
  succeeded   bigint  not null default 0 check (succeeded >= 0),
  failed      bigint  not null default 0 check (failed >= 0),
  cancelled   bigint  not null default 0 check (cancelled >= 0),
  created_at  timestamptz not null,
  finished_at timestamptz,
  kept_by     bigint,                                       -- of a large one, what retention last found: the seq of a member that keeps it; -t: at t, none
  constraint members_conserved check (total = remaining + succeeded + failed + cancelled),
  constraint ends_with_the_last check ((remaining = 0) = (finished_at is not null))
);
create index groups_newest on windlass.groups (created_at, group_id);

-- One row per key: global, queue:x, type:y, key:z, tag:t, org:o. Concurrency (used, max_used) and rate (tokens) alike.
create table windlass.limits (
  key         text collate "C" primary key,
  used        bigint not null default 0,
  max_used    bigint,
  tokens      double precision,
  burst       double precision,
  per_second  double precision,
  refilled_at timestamptz,
  wake_at     timestamptz,                                  -- when a claim lets those through who wait
  weight      double precision not null default 1,
  paused_at   timestamptz,
  declared    text,                                         -- as a program last described it
  constraint key_named       check (length(key) > 0),
  constraint permits_bounded check (used >= 0 and (max_used is null or max_used >= 0)),
  constraint bucket_whole    check ((tokens is null) = (burst is null) and (tokens is null) = (per_second is null)
                                    and (tokens is null) = (refilled_at is null)
                                    and (tokens is null or (tokens >= 0 and tokens <= burst))),
  constraint rate_passes     check (per_second is null or (per_second > 0 and per_second < 'infinity'
                                                           and burst >= 1 and burst < 'infinity')),
  constraint weight_positive check (weight > 0 and weight < 'infinity')
);

-- Holds nothing. Whoever is about to begin or end runs locks it in a way that all others share, whoever makes a limit that has
-- to count them in one that none does: sql/limits.sql, hold_claims.
create table windlass.barrier ();

create index limits_waking on windlass.limits (wake_at) where wake_at is not null;

-- What each org of a fair queue had, in virtual time: core/fairness.py
create table windlass.shares (
  queue   text collate "C" not null,
  share   text collate "C" not null,
  started double precision not null,
  finish  double precision not null,
  primary key (queue, share),
  constraint turns_go_on check (finish >= started)
);

-- --------------------------------------------------------------------------------------------- queues and the fleet

create table windlass.queues (
  name       text    collate "C" primary key check (length(name) between 1 and 200),
  positions  text    not null default 'tail' check (positions in ('tail', 'dense')),
  fairness   text    not null default 'strict' check (fairness in ('strict', 'fair')),
  preset     text,
  settings   text,                                          -- json object: defaults for new jobs of this queue
  paused_at  timestamptz,
  age_after  bigint,                                        -- a job that waits for so long gets one more priority
  age_to     integer,                                       -- up to this one
  turning    text,                                          -- json: how far one that has become fair, or strict, is so
  created_at timestamptz not null,
  updated_at timestamptz not null,
  constraint ageing_whole check ((age_after is null) = (age_to is null) and (age_after is null or age_after > 0))
);

create table windlass.queue_stats (
  queue    text    collate "C" not null,
  minute   timestamptz not null,
  depth    jsonb   not null,                                -- label -> count
  oldest   bigint,                                          -- age of the job that is due longest
  finished jsonb   not null,                                -- outcome -> count
  waits    jsonb   not null,                                -- log-scale histogram
  runs     jsonb   not null,
  primary key (minute, queue)                               -- written, read and dropped by the minute
);

create table windlass.workers (
  id             text    collate "C" primary key,
  hostname       text    not null,
  pid            bigint  not null default 0,
  pool_size      bigint  not null default 1,
  version        text    not null default '',
  queues         jsonb,                                     -- array of names
  types          jsonb,                                     -- array of names
  wakeups        text    not null default 'poll',
  running        bigint  not null default 0,
  started_at     timestamptz not null default clock_timestamp(),
  last_heartbeat timestamptz not null default clock_timestamp()
);
create index workers_heartbeat on windlass.workers (last_heartbeat);

create table windlass.leader (
  one          integer primary key check (one = 1),
  worker_id    text collate "C",
  epoch        bigint not null default 0,
  leader_until timestamptz
);

create table windlass.reservations (
  reservation_id text collate "C" primary key,
  queue          text collate "C" not null,
  reserved_by    text not null,
  status         text not null default 'ACTIVE' check (status in ('ACTIVE', 'RELEASED', 'EXPIRED')),
  reserved_at    timestamptz not null,
  granted_at     timestamptz,
  expires_at     timestamptz not null,
  ended_at       timestamptz,
  outcome        text,
  constraint active_is_open check ((status = 'ACTIVE') = (ended_at is null))
);
create unique index reservations_active on windlass.reservations (queue) where status = 'ACTIVE';

-- ------------------------------------------------------------------------------------------ templates and schedules

create table windlass.templates (
  template_id text   collate "C" not null,
  version     bigint not null,
  name        text   collate "C" not null,
  type        text   not null,
  queue       text   not null,
  params      bytea  not null,
  settings    text,
  archived_at timestamptz,
  created_at  timestamptz not null,
  primary key (template_id, version),
  constraint template_whole check (version >= 1 and length(template_id) > 0 and length(name) > 0 and length(type) > 0
                                   and length(queue) between 1 and 200)
);
create unique index templates_name on windlass.templates (name, version);

create table windlass.schedules (
  schedule_id       text    collate "C" primary key,
  template_id       text    collate "C" not null,
  name              text    collate "C" not null unique,
  cron_expression   text    not null,
  timezone          text    not null default 'UTC',
  enabled           boolean not null default true,
  param_overrides   bytea,
  catch_up          text    not null default 'last',
  catch_up_cap      bigint  not null default 100,
  overlap           text    not null default 'allow',
  jitter            bigint  not null default 0,
  declared          text,                                   -- the fingerprint of the code that declares it
  declared_at       timestamptz,
  last_triggered_at timestamptz,
  next_trigger_at   timestamptz,
  created_at        timestamptz not null,
  updated_at        timestamptz not null,
  constraint schedule_whole     check (length(schedule_id) > 0 and length(template_id) > 0 and length(name) > 0
                                       and length(cron_expression) > 0 and length(timezone) > 0),
  constraint catch_up_known     check (catch_up in ('skip', 'last', 'all') and catch_up_cap >= 1),
  constraint overlap_known      check (overlap in ('allow', 'skip', 'queue-one')),
  constraint paused_has_no_next check (enabled or next_trigger_at is null),
  constraint jitter_positive    check (jitter >= 0)
);
create index schedules_due on windlass.schedules (next_trigger_at) where next_trigger_at is not null;
create index schedules_template on windlass.schedules (template_id);

-- ------------------------------------------------------------------------------------------------- what leaves here

create table windlass.webhooks (
  webhook_id text    collate "C" primary key,
  url        text    not null,
  events     jsonb   not null,                              -- array of event names
  secret     text    not null,
  org_id     text    collate "C",
  enabled    boolean not null default true,
  created_at timestamptz not null,
  old_secret text,                                          -- signs along until old_until
  old_until  timestamptz,
  disabled_reason text
);

-- Events, with what is sent of them, lie by the day in which they happened, and usage by the month: a whole partition is
-- dropped at once when its time is over, where deleting would write every row once more and leave the rest to vacuum. A leader
-- makes partitions ahead; what comes for a time that has none goes to the default one, so nothing is ever refused, and is
-- deleted from there. The key of a partition has to be part of every unique one: `event_at` is the event's own `created_at`,
-- which never changes, so (event_id, webhook_id, event_at) is as unique as (event_id, webhook_id).
create sequence windlass.outbox_event_id_seq as bigint;

create table windlass.outbox (
  event_id   bigint not null default nextval('windlass.outbox_event_id_seq'),  -- which is never written by hand
  event      text not null,
  job_id     text collate "C",                              -- what it is about: a job, group, schedule, queue or webhook
  org_id     text collate "C",
  body       text not null,
  created_at timestamptz not null,
  fanned_at  timestamptz,                                   -- its deliveries were made
  primary key (event_id, created_at)
) partition by range (created_at);
alter sequence windlass.outbox_event_id_seq owned by windlass.outbox.event_id;
create table windlass.outbox_default partition of windlass.outbox default;
create index outbox_waiting on windlass.outbox (event_id) where fanned_at is null;
create index outbox_fanned on windlass.outbox (created_at) where fanned_at is not null;
create trigger outbox_frozen before update of event_id, created_at on windlass.outbox for each row
  when (new.event_id <> old.event_id or new.created_at <> old.created_at)
  execute function windlass.refuse('when an event happened never changes');

create table windlass.deliveries (
  event_id        bigint not null,
  webhook_id      text   collate "C" not null,
  event_at        timestamptz not null,                     -- outbox.created_at
  status          text   not null default 'queued' check (status in ('queued', 'sent', 'failed')),
  attempts        bigint not null default 0,
  next_attempt_at timestamptz,
  taken           boolean not null default false,           -- somebody is sending it, until next_attempt_at
  finished_at     timestamptz,
  response        text,
  log             text,                                     -- json array of (at, took, status, error)
  primary key (event_id, webhook_id, event_at),
  constraint queued_has_a_time check ((status = 'queued') = (next_attempt_at is not null))
) partition by range (event_at);
create table windlass.deliveries_default partition of windlass.deliveries default;
create index deliveries_due on windlass.deliveries (webhook_id, next_attempt_at) where status = 'queued';
create index deliveries_sent on windlass.deliveries (webhook_id, finished_at) where status = 'sent';
create index deliveries_of on windlass.deliveries (webhook_id, status, event_id);
create trigger deliveries_frozen before update of event_id, webhook_id, event_at on windlass.deliveries for each row
  when (new.event_id <> old.event_id or new.webhook_id <> old.webhook_id or new.event_at <> old.event_at)
  execute function windlass.refuse('what a delivery is of never changes');

-- Runs that left no row: those of one settlement that are of one kind and ended within one minute, the last of them `at`.
-- Counted like runs, and kept a little longer.
create table windlass.usage_batches (
  batch_id bigint generated always as identity primary key,
  at       timestamptz not null,
  org_id   text   collate "C",
  queue    text   collate "C" not null,
  type     text   collate "C" not null,
  outcome  text   not null,
  runs     bigint not null,
  run_us   bigint not null,
  wait_us  bigint not null,
  cpu_us   bigint not null,
  peak_rss bigint
);
create index usage_batches_at on windlass.usage_batches (at);

create table windlass.usage_hourly (
  hour     timestamptz not null,
  org_id   text   collate "C" not null,
  queue    text   collate "C" not null,
  type     text   collate "C" not null,
  outcome  text   collate "C" not null,
  runs     bigint not null,
  run_us   bigint not null,
  wait_us  bigint not null,
  cpu_us   bigint not null,
  peak_rss bigint,
  primary key (hour, org_id, queue, type, outcome)
) partition by range (hour);
create table windlass.usage_hourly_default partition of windlass.usage_hourly default;

-- The same by the day, of hours that are over: what is asked for by days, or for a month, is not read hour by hour.
create table windlass.usage_daily (
  day      timestamptz not null,
  org_id   text   collate "C" not null,
  queue    text   collate "C" not null,
  type     text   collate "C" not null,
  outcome  text   collate "C" not null,
  runs     bigint not null,
  run_us   bigint not null,
  wait_us  bigint not null,
  cpu_us   bigint not null,
  peak_rss bigint,
  primary key (day, org_id, queue, type, outcome)
);

create table windlass.api_tokens (
  token_id     text  collate "C" primary key,
  name         text  not null,
  digest       bytea not null unique,                       -- sha-256; the token itself is never stored
  scopes       jsonb not null,
  org_id       text  collate "C",
  queues       jsonb,
  expires_at   timestamptz,
  last_used_at timestamptz,
  revoked_at   timestamptz,
  created_at   timestamptz not null
);
create unique index api_tokens_name on windlass.api_tokens (coalesce(org_id, ''), name) where revoked_at is null;

create table windlass.audit (
  audit_id bigint generated always as identity primary key,
  at       timestamptz not null,
  actor    text not null,
  action   text not null,
  subject  text not null,
  detail   text,                                            -- json object
  org_id   text collate "C",                                -- to which the actor was bound
  selection text,                                           -- how those that were changed were chosen
  count    bigint not null default 1
);

create trigger audit_frozen after update on windlass.audit for each row execute function windlass.refuse('the audit log is append-only');
create trigger audit_kept   before delete on windlass.audit for each row execute function windlass.refuse('the audit log is append-only');

-- ------------------------------------------------------------------------------------------------------- partitions

-- For a time, one of each of these tables, or none. False when they are not there afterwards: rows of that time lie in a
-- default one already, or that is so large that looking through it would keep others waiting, or somebody is in the way, or
-- this role does not own the tables. Nobody waits behind us for longer than the timeout of a lock.
create function windlass.add_partitions(parents text[], lower timestamptz, upper timestamptz) returns boolean language plpgsql
  set lock_timeout = '50ms' as $$
declare
  suffix text := to_char(lower at time zone 'UTC', '_YYYYMMDD');
  parent text;
begin
  if to_regclass('windlass.' || parents[1] || suffix) is not null then return true; end if;
  foreach parent in array parents loop
    if pg_relation_size(('windlass.' || parent || '_default')::regclass) > 64 * 1024 * 1024 then return false; end if;
  end loop;
  foreach parent in array parents loop
    execute format('create table windlass.%1$I (like windlass.%2$I including defaults including constraints)', parent || suffix, parent);
    execute format('alter table windlass.%2$I attach partition windlass.%1$I for values from (%3$L) to (%4$L)', parent || suffix, parent, lower, upper);
  end loop;
  return true;
exception when lock_not_available or check_violation or insufficient_privilege or duplicate_table or deadlock_detected then
  return false;
end $$;

-- The suffixes of those whose time is over, the oldest first.
create function windlass.old_partitions(parent text, before timestamptz) returns setof text language sql stable as $$
  select substring(relname from length(parent) + 1) from (
    select relname, (regexp_match(pg_get_expr(relpartbound, oid), 'TO \(''(.*?)''\)'))[1]::timestamptz as upper
      from pg_class where oid in (select inhrelid from pg_inherits where inhparent = ('windlass.' || parent)::regclass)) as bounds
   where upper <= before order by upper
$$;

-- Drop those of one time, and tell how many rows the first table had in it; nothing, when somebody is in the way, or when the
-- question `needed` finds something that is still wanted. It is asked again once nobody else can write there.
create function windlass.drop_partitions(parents text[], suffix text, needed text) returns bigint language plpgsql
  set lock_timeout = '50ms' as $$
declare
  parent text;
  kept boolean := false;
  gone bigint;
begin
  if needed <> '' then execute needed into kept; end if;
  if kept then return null; end if;
  execute format('select count(*) from windlass.%I', parents[1] || suffix) into gone;
  foreach parent in array parents loop
    execute format('lock table windlass.%I in access exclusive mode', parent);
  end loop;
  if needed <> '' then execute needed into kept; end if;
  if kept then return null; end if;
  foreach parent in array parents loop
    execute format('drop table windlass.%I', parent || suffix);
  end loop;
  return gone;
exception when lock_not_available or insufficient_privilege or deadlock_detected then return null;
end $$;

-- --------------------------------------------------------------------------------------------- enqueueing by a statement

-- `select * from windlass.enqueue('send_email', '{"to": "ada@example.com"}', queue => 'mail')`, in any language and in any
-- transaction: the row that the client would write, with its keys and its wake-up. Parameters are never renamed, removed or
-- moved; new ones come last. A key that is taken is answered with the job that holds it, and `created` is false.

create function windlass.check_name(field text, value text) returns void language plpgsql immutable as $$
begin  -- core/fields.py: check_name
  if value is null or btrim(value) = '' then
    raise exception '%: must not be empty', field using errcode = 'invalid_parameter_value';
  elsif length(value) > 200 or octet_length(value) > 512 or value ~ '[\x01-\x1f\x7f-\xa0\xad\u2028\u2029\ue000-\uf8ff\ufff9-\uffff]' then
    raise exception '%: must be printable text of at most 200 characters and 512 bytes', field using errcode = 'invalid_parameter_value';
  end if;
end $$;

create function windlass.check_names(field text, given text[]) returns jsonb language plpgsql immutable as $$
begin  -- null where there are none, as the client writes it
  perform windlass.check_name(field, one) from unnest(given) as one;
  if (select count(distinct one) < count(*) from unnest(given) as one) then
    raise exception '%: names one twice', field using errcode = 'invalid_parameter_value';
  end if;
  return case when cardinality(given) > 0 then to_jsonb(given) end;
end $$;

-- core/uniqueness.py: idempotency_scope, of a type
create function windlass.scope_of(type text, org_id text) returns text language sql immutable as $$
  select case when length(scope) <= 200 then scope else 'sha256:' || encode(sha256(convert_to(scope, 'UTF8')), 'hex') end
    from (select coalesce('org:' || replace(replace(replace(org_id, '%', '%25'), ':', '%3A'), '/', '%2F') || '/', '')
                 || 'type:' || replace(replace(replace(type, '%', '%25'), ':', '%3A'), '/', '%2F') as scope) as named
$$;

-- ids.py: a UUID of version 7, in the order of time
create function windlass.new_id(now timestamptz) returns text language sql volatile as $$
  select substr(ms, 1, 8) || '-' || substr(ms, 9, 4) || '-7' || lpad(to_hex(us % 1000), 3, '0') || '-'
         || substr(gen_random_uuid()::text, 20)
    from (select us, lpad(to_hex(us / 1000), 12, '0') as ms from (select windlass.micros(now) as us) as instant) as parts
$$;

create function windlass.head_of(job_id text) returns text language sql stable as $$
  with recursive chain (id, next) as (
    select id, superseded_by from windlass.jobs where id = job_id
    union  -- a chain that somebody tied to itself is walked once, and has no last link
    select jobs.id, jobs.superseded_by from windlass.jobs join chain on jobs.id = chain.next
  )
  select coalesce((
    select coalesce(next, id) from chain where (select true from windlass.jobs where jobs.id = chain.next limit 1) is null
  ), job_id)
$$;

-- Of the queued jobs of a queue and priority: from each partial index, since a plain max() would read every job that ever was.
create function windlass.last_position(named text, rank integer) returns bigint language sql stable as $$
  select greatest(
    (select position from windlass.jobs where queue = named and priority = rank and state = 'queued' and ready order by position desc limit 1),
    (select position from windlass.jobs where queue = named and priority = rank and case when not ready then state end = 'queued' order by position desc limit 1))
$$;

create function windlass.enqueue(
  type            text,
  payload         jsonb       default '{}',   -- arguments by name
  queue           text        default 'default',
  priority        integer     default 0,      -- larger goes first
  run_at          timestamptz default null,   -- not before this instant
  delay           interval    default null,   -- or not before so long from now
  idempotency_key text        default null,   -- once for this type, and organisation
  idempotency_for interval    default null,   -- how long the key is remembered; null = for ever
  dedupe_key      text        default null,   -- not while a job with the same is queued or runs
  org_id          text        default null,
  tags            text[]      default null,
  headers         jsonb       default null,   -- an object of texts
  max_attempts    integer     default 6,      -- executions in all
  timeout         interval    default null,   -- of one execution
  id              text        default null,
  notify          boolean     default true,   -- wake workers at the commit
  out job_id      text,
  out created     boolean
) language plpgsql volatile as $$
#variable_conflict use_column
declare
  moment    timestamptz := clock_timestamp();
  due       timestamptz := coalesce(enqueue.run_at, moment + enqueue.delay);
  chosen    text := coalesce(enqueue.id, windlass.new_id(moment));
  my_key    text := nullif(btrim(enqueue.idempotency_key, E' \t\n\r\f\v'), '');
  my_scope  text := case when my_key is not null then windlass.scope_of(enqueue.type, enqueue.org_id) end;
  my_dedupe text := nullif(btrim(enqueue.dedupe_key, E' \t\n\r\f\v'), '');
  my_seq    bigint;
  my_place  bigint;
  body      bytea := convert_to(enqueue.payload::text, 'UTF8');
  labels    jsonb := windlass.check_names('tags', enqueue.tags);
  is_ours   boolean := false;
  holder    text;
begin
  perform windlass.check_name('type', enqueue.type), windlass.check_name('queue', enqueue.queue), windlass.check_name('id', chosen);
  if enqueue.org_id is not null then perform windlass.check_name('org_id', enqueue.org_id); end if;
  if jsonb_typeof(enqueue.payload) is distinct from 'object' then
    raise exception 'payload: must be a JSON object: arguments by name' using errcode = 'invalid_parameter_value';
  elsif length(body) > 1048576 then
    raise exception 'payload: is % bytes, the limit is 1048576; store a reference instead', length(body) using errcode = 'invalid_parameter_value';
  elsif enqueue.run_at is not null and enqueue.delay is not null then
    raise exception 'run_at: say this or delay, not both' using errcode = 'invalid_parameter_value';
  elsif enqueue.delay < interval '0' or enqueue.timeout < interval '0' or enqueue.idempotency_for <= interval '0' then
    raise exception 'delay, timeout, idempotency_for: must not be negative' using errcode = 'invalid_parameter_value';
  elsif due not between '1970-01-01 00:00:00+00' and '9999-01-01 00:00:00+00' or moment + enqueue.idempotency_for > '9999-01-01 00:00:00+00' then
    raise exception 'run_at, delay, idempotency_for: must lead to a moment from 1970 on and before the year 9999' using errcode = 'invalid_parameter_value';
  elsif enqueue.max_attempts is null or enqueue.max_attempts < 1 then
    raise exception 'max_attempts: must be at least 1' using errcode = 'invalid_parameter_value';
  elsif octet_length(my_key) > 1000 or octet_length(my_dedupe) > 1000 then
    raise exception 'idempotency_key, dedupe_key: at most 1000 bytes; hash what is longer' using errcode = 'invalid_parameter_value';
  elsif enqueue.headers is not null and (jsonb_typeof(enqueue.headers) <> 'object'
        or exists (select from jsonb_each(case jsonb_typeof(enqueue.headers) when 'object' then enqueue.headers else '{}' end) where jsonb_typeof(value) <> 'string')) then
    raise exception 'headers: must be a JSON object of texts' using errcode = 'invalid_parameter_value';
  end if;

  for turn in 1..3 loop  -- a holder that ends between two statements is the reason to look again
    if my_key is not null and not is_ours then
      insert into windlass.idempotency_keys as held (scope, key, job_id, expires_at)
      values (my_scope, my_key, chosen, moment + enqueue.idempotency_for)
      on conflict (scope, key) do update set job_id = excluded.job_id, expires_at = excluded.expires_at
       where held.expires_at <= moment;
      is_ours := found;
      if not is_ours then
        select windlass.head_of(job_id) into holder from windlass.idempotency_keys where scope = my_scope and key = my_key;
        if found then
          enqueue.job_id := holder; created := false; return;
        end if;
        continue;
      end if;
    end if;
    if my_place is null and exists (select from windlass.queues where positions = 'dense' and name = enqueue.queue for update) then
      my_place := least(coalesce(windlass.last_position(enqueue.queue, enqueue.priority), 0) + 100, 4611686018427387903);  -- core/positions.py: dense
    end if;
    my_seq := nextval('windlass.jobs_seq');
    insert into windlass.jobs (
      seq, ready, position, created_at, queued_at, updated_at, state, id, payload, type, queue, org_id, priority, run_at,
      timeout_ns, max_attempts, max_lost, retry_policy, idempotency_scope, idempotency_key, dedupe_key, tags, headers, share)
    values (
      my_seq, coalesce(due <= moment, true), coalesce(my_place, 100 * my_seq), moment, moment, moment, 'queued', chosen, body,
      enqueue.type, enqueue.queue, enqueue.org_id, enqueue.priority, due,
      coalesce(extract(epoch from enqueue.timeout) * 1000000000, 0)::bigint, enqueue.max_attempts, 3,
      format('{"max_attempts":%s,"backoff":{"type":"table","pauses":[1000000,2000000,4000000,8000000,16000000,32000000,60000000]}}', enqueue.max_attempts),
      my_scope, my_key, my_dedupe, labels, nullif(enqueue.headers, '{}'),
      (select coalesce('=' || enqueue.org_id, '') from windlass.queues where fairness = 'fair' and name = enqueue.queue))
    on conflict (dedupe_key) where dedupe_key is not null and state in ('queued', 'running') do nothing;
    if found then
      if enqueue.notify and coalesce(due <= moment, true) then
        perform pg_notify('windlass_' || nspname, enqueue.queue) from pg_class join pg_namespace on pg_namespace.oid = relnamespace
          where pg_class.oid = 'windlass.jobs'::regclass;
      end if;
      enqueue.job_id := chosen; created := true; return;
    end if;
    select jobs.id into holder from windlass.jobs where dedupe_key = my_dedupe and state in ('queued', 'running');
    if found then
      if my_key is not null then  -- taken above, and answered by another key: the same call again must be too
        update windlass.idempotency_keys set job_id = holder where scope = my_scope and key = my_key;
      end if;
      enqueue.job_id := holder; created := false; return;
    end if;
  end loop;
  raise exception 'others enqueue and end jobs with the same keys; try again' using errcode = 'serialization_failure';
end $$;
