-- The whole schema. Times are integer microseconds since 1970-01-01 UTC; durations are microseconds too,
-- except jobs.timeout_ns. Column defaults exist so that `insert into jobs(type) values ('x')` by hand makes a
-- good row; the engine itself always binds every value and never relies on them.
--
-- The CHECKs are the second half of assertions made in core/: a row that breaks one cannot be stored.
-- The triggers only raise, which undoes the statement. Their bodies never run on the hot path, only their WHEN clauses
-- are evaluated; `after update` because SQLite evaluates those more cheaply than `before update`.

-- ----------------------------------------------------------------------------------------------------------- jobs

create table jobs (
  seq                 integer primary key autoincrement,   -- never reused: handles and positions rest on it
  id                  text    not null unique default (lower(hex(randomblob(16)))),
  queue               text    not null default 'default',
  type                text    not null,
  org_id              text,
  state               text    not null default 'queued',
  ready               integer not null default 1,          -- due, no unfinished predecessor, not parked
  priority            integer not null default 0,
  position            integer,                             -- filled by the trigger below when a hand leaves it out
  created_at          integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000),
  queued_at           integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000),
  updated_at          integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000),
  run_at              integer,                             -- null = now
  timeout_ns          integer not null default 0,
  attempts            integer not null default 0,          -- recorded failures
  executions          integer not null default 0,          -- runs, of which each has a row unless `history` says otherwise
  skipped             integer not null default 0,          -- runs that were released, snoozed or cancelled
  lost                integer not null default 0,          -- leases that expired or were revoked
  max_attempts        integer not null default 0,          -- total executions allowed; 0 = unset
  max_lost            integer not null default 0,          -- 0 = reclaimed for ever
  lease_token         text,
  lease_expires_at    integer,
  worker_id           text,
  claimed_at          integer,
  started_at          integer,
  finished_at         integer,
  failed_at           integer,
  last_token          text,
  last_outcome        text,
  dead_kind           text,
  dead_at             integer,
  dead_reason         text,
  retry_mode          text    not null default 'same_job',
  crash_policy        text    not null default 'requeue',
  on_unknown          text    not null default 'wait',
  history             text,                                -- null = full; 'failures' = executions that succeed leave no run
  retry_policy        text,
  idempotency_scope   text,
  idempotency_key     text,
  dedupe_key          text,
  template_id         text,
  template_version    integer,
  schedule_id         text,
  fire_at             integer,
  group_id            text,
  group_seq           integer,
  waiting_on          integer not null default 0,          -- predecessors that have not finished
  after_rule          text    not null default 'cancel',   -- when a predecessor ends badly
  awaited             integer not null default 0,          -- others wait for it; once it has ended: and were not all told
  parked_on           text,                                -- the limit key this job waits for
  limit_keys          text,                                -- json array
  permits             text,                                -- json array: the limits that its lease is counted in
  share               text,                                -- whose turn it takes in a fair queue; null in others
  aged_at             integer,                             -- when its priority was last raised for waiting
  tags                text,                                -- json array
  retry_of            text,
  manual              integer not null default 0,
  superseded_by       text,
  cancel_requested_at integer,
  progress            real,
  progress_note       text,
  headers             text,                                -- json object
  codec               text    not null default 'json',
  last_error          text    not null default '',
  result              blob,
  payload             blob    not null default x'7b7d',    -- {}

  constraint state_known        check (state in ('queued', 'running', 'succeeded', 'dead', 'cancelled')),
  constraint names_bounded      check (length(id) between 1 and 200 and length(type) between 1 and 200
                                       and length(queue) between 1 and 200),
  constraint lease_is_a_pair    check ((lease_token is null) = (lease_expires_at is null)),
  constraint running_is_leased  check ((state = 'running') = (lease_token is not null)),
  -- What lapses goes back to the queue; of a run without a row the claim is all that is known, and is written down then.
  constraint running_goes_back  check (state <> 'running' or (ready = 1 and (history is null or (executions > 0 and claimed_at is not null)))),
  constraint dead_is_explained  check ((state = 'dead') = (dead_kind is not null) and (state = 'dead') = (dead_at is not null)),
  constraint dead_kind_known    check (dead_kind in ('exhausted', 'rejected', 'lost', 'superseded')),
  constraint terminal_finished  check ((state in ('succeeded', 'dead', 'cancelled')) = (finished_at is not null)),
  constraint counters_positive  check (attempts >= 0 and executions >= 0 and skipped >= 0 and lost >= 0 and max_attempts >= 0
                                       and max_lost >= 0 and waiting_on >= 0 and timeout_ns >= 0 and skipped <= executions),
  -- A row at the end of what can be counted would be refused its next step, and with it the claim of everybody who meets it.
  -- attempts, lost and position stop at their bounds (core/counters.py); executions and updated_at go on by ones from what a
  -- hand may write, which the triggers below bound, and do not get from there to here.
  constraint counters_can_count check (max(attempts, lost) <= 9007199254740992 and executions < 4611686018427387904
                                       and (position is null or abs(position) < 4611686018427387904)
                                       and seq between 1 and 46116860184273878),
  -- From 1970 to the year 9999, which Python's datetime holds in every time zone (clock.py: LAST_INSTANT). Several, because
  -- SQLite asks those alone whose columns are written.
  constraint instants_of_birth  check (created_at between 0 and 253370764800000000 and queued_at between 0 and 253370764800000000
                                       and fire_at between 0 and 253370764800000000),
  constraint instants_of_queue  check (run_at between 0 and 253370764800000000 and aged_at between 0 and 253370764800000000),
  constraint instants_of_run    check (lease_expires_at between 0 and 253370764800000000 and claimed_at between 0 and 253370764800000000
                                       and started_at between 0 and 253370764800000000),
  constraint instants_of_end    check (finished_at between 0 and 253370764800000000 and failed_at between 0 and 253370764800000000
                                       and dead_at between 0 and 253370764800000000 and cancel_requested_at between 0 and 253370764800000000),
  constraint instants_of_change check (updated_at between 0 and 253402128000000000),
  constraint ready_is_free      check (ready = 0 or (ready = 1 and waiting_on = 0 and parked_on is null)),
  constraint permits_are_leased check (permits is null or state = 'running'),
  constraint one_run_per_link   check (retry_mode = 'same_job' or (crash_policy = 'fail' and executions <= (state <> 'queued'))),
  constraint policies_known     check (retry_mode in ('same_job', 'new_job') and crash_policy in ('requeue', 'fail')
                                       and on_unknown in ('wait', 'dead') and after_rule in ('cancel', 'continue')),
  constraint history_known      check (history is null or (history = 'failures' and retry_mode = 'same_job')),
  constraint superseded_by_one  check (dead_kind is not 'superseded' or superseded_by is not null),
  constraint key_is_scoped      check ((idempotency_key is null) = (idempotency_scope is null)),
  constraint lists_are_lists    check ((limit_keys is null or (json_valid(limit_keys) and json_type(limit_keys) = 'array'))
                                       and (tags is null or (json_valid(tags) and json_type(tags) = 'array'))
                                       and (permits is null or (json_valid(permits) and json_type(permits) = 'array'))
                                       and (headers is null or (json_valid(headers) and json_type(headers) = 'object')))
) strict;

-- Each index is partial, so that a row sits in those only whose question it may answer: while it is queued, of what is ready or
-- not, of its turn and of what it waits for; while it runs, of leases; when it has ended, of ends, of what it owes and of the
-- dead; and as long as it is there, or open, in those of its group, keys, chain and schedule.
-- seq, the rowid, is the implicit last column of every index: it ends the total order.
create index jobs_ready    on jobs (queue, priority desc, position, created_at) where state = 'queued' and ready = 1;
create index jobs_unready  on jobs (queue, priority desc, position, created_at) where state = 'queued' and ready = 0;
create index jobs_fair     on jobs (queue, share, priority desc, position, created_at) where state = 'queued' and ready = 1 and share is not null;
create index jobs_waiting  on jobs (queue, run_at)                              where state = 'queued' and ready = 0 and waiting_on = 0 and parked_on is null;
create index jobs_parked   on jobs (parked_on, queue, type, share, priority desc, position, created_at) where state = 'queued' and parked_on is not null;
create index jobs_blocked  on jobs (queue)                                      where state = 'queued' and waiting_on > 0;
create index jobs_leased   on jobs (queue, lease_expires_at)                    where state = 'running';
create index jobs_finished on jobs (state, finished_at)                         where finished_at is not null;
create index jobs_owing    on jobs (awaited)                                    where finished_at is not null and awaited = 1;
create index jobs_dead     on jobs (queue, dead_at)                             where state = 'dead' and dead_kind <> 'superseded';
create index jobs_group    on jobs (group_id, group_seq)                        where group_id is not null;
create unique index jobs_dedupe        on jobs (dedupe_key) where dedupe_key is not null and state in ('queued', 'running');
create unique index jobs_retry_of      on jobs (retry_of)   where retry_of is not null and manual = 0;
create index        jobs_manual_retry  on jobs (retry_of)   where retry_of is not null and manual = 1;
create index        jobs_schedule      on jobs (schedule_id) where schedule_id is not null and state in ('queued', 'running');
create index        jobs_made          on jobs (schedule_id) where schedule_id is not null;  -- all of them, for listings
create unique index jobs_fire          on jobs (schedule_id, fire_at) where schedule_id is not null and fire_at is not null and retry_of is null;

create trigger jobs_default_position after insert on jobs when new.position is null begin
  update jobs set position = 100 * seq, updated_at = new.updated_at + 1 where seq = new.seq;
end;

-- The engine always writes a larger updated_at; only a hand-made update leaves it as it was.
create trigger jobs_touch after update on jobs when new.updated_at = old.updated_at begin
  update jobs set updated_at = max(old.updated_at + 1, cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000)
   where seq = new.seq;
end;

-- What goes on by ones does so from where there is room for it: core/counters.py. The number of a row that is larger than all
-- others is where the next ones begin. A copy (ops/copying.py: KEY) brings rows that have been counted on from there.
create trigger jobs_begin_low after insert on jobs
  when (new.executions > 9007199254740992 or new.updated_at > 253370764800000000
    or (new.seq > 9007199254740992 and new.seq > 1000000 + coalesce((select max(seq) from sqlite_sequence where name = 'jobs'), 0)))
    and not exists (select 1 from meta where key = 'copier')
begin select raise(abort, 'executions, updated_at and seq begin where they can still be counted on'); end;

create trigger jobs_count_by_ones after update of executions, updated_at on jobs
  when new.executions < old.executions or (new.executions > 9007199254740992 and new.executions > old.executions + 1)
    or (new.updated_at > 253370764800000000 and new.updated_at > old.updated_at + 1)
begin select raise(abort, 'executions and updated_at go up, and by ones where little room is left'); end;

create trigger jobs_frozen after update of seq, id, type, org_id, template_id, template_version, schedule_id, fire_at, group_id,
  group_seq, retry_of, manual, retry_mode, crash_policy, history, created_at, queued_at on jobs
  when new.seq <> old.seq or new.id <> old.id or new.type <> old.type or new.org_id is not old.org_id
    or new.template_id is not old.template_id or new.template_version is not old.template_version
    or new.schedule_id is not old.schedule_id or new.fire_at is not old.fire_at or new.group_id is not old.group_id
    or new.group_seq is not old.group_seq or new.retry_of is not old.retry_of or new.manual <> old.manual
    or new.retry_mode <> old.retry_mode or new.crash_policy <> old.crash_policy or new.history is not old.history
    or new.created_at <> old.created_at or new.queued_at <> old.queued_at
begin select raise(abort, 'this column of a job never changes'); end;

create trigger jobs_payload_frozen after update of payload, codec, headers on jobs
  when old.executions > 0 and (new.payload <> old.payload or new.codec <> old.codec or new.headers is not old.headers)
begin select raise(abort, 'the payload is frozen once a job has been claimed'); end;

-- What a claim has to read, for all jobs at once: one that cannot be read would stop everybody.
create trigger jobs_made_of_texts after insert on jobs
  when (new.limit_keys is not null and exists (select 1 from json_each(new.limit_keys) where type <> 'text'))
    or (new.tags is not null and exists (select 1 from json_each(new.tags) where type <> 'text'))
    or (new.headers is not null and exists (select 1 from json_each(new.headers) where type <> 'text'))
begin select raise(abort, 'limit_keys, tags and headers hold texts only'); end;

create trigger jobs_kept_of_texts after update of limit_keys, tags, headers on jobs
  when (new.limit_keys is not null and exists (select 1 from json_each(new.limit_keys) where type <> 'text'))
    or (new.tags is not null and exists (select 1 from json_each(new.tags) where type <> 'text'))
    or (new.headers is not null and exists (select 1 from json_each(new.headers) where type <> 'text'))
begin select raise(abort, 'limit_keys, tags and headers hold texts only'); end;

create trigger jobs_order_frozen after update of priority, position on jobs
  when old.state <> 'queued' and (new.priority <> old.priority or new.position is not old.position)
begin select raise(abort, 'priority and position change only while a job is queued'); end;

create trigger jobs_one_way after update of state on jobs
  when (old.state in ('succeeded', 'cancelled') and new.state <> old.state)
    or (old.state = 'dead' and new.state not in ('dead', 'queued'))
    or (old.state = 'dead' and new.state = 'queued' and (old.retry_mode = 'new_job' or old.dead_kind = 'superseded'))
    or (old.state = 'running' and new.state = 'queued' and old.retry_mode = 'new_job')
    or (old.state = 'queued' and new.state = 'succeeded')
begin select raise(abort, 'a job does not make this change of state'); end;

create trigger jobs_started_once after update of started_at on jobs
  when new.started_at is not old.started_at
    and not (old.state = 'queued' and new.state = 'running') and not (old.state = 'running' and old.started_at is null)
begin select raise(abort, 'started_at is written once per execution'); end;

create trigger jobs_ended_once after update of finished_at, dead_at, dead_kind, dead_reason on jobs
  when old.finished_at is not null and new.state = old.state
    and (new.finished_at is not old.finished_at or new.dead_at is not old.dead_at or new.dead_reason is not old.dead_reason
         or (new.dead_kind is not old.dead_kind and new.dead_kind <> 'superseded'))
begin select raise(abort, 'how and when a job ended is written once'); end;

create trigger jobs_delete before delete on jobs when old.state not in ('succeeded', 'dead', 'cancelled')
begin select raise(abort, 'only a finished job may be deleted'); end;

-- ----------------------------------------------------------------------------------------------------------- runs

-- One execution each. The row is also the usage event: who, what, outcome, wait, CPU, memory.
-- run_id ends in the job's seq (hex), which is how a run is found by its id without an index of its own.
create table runs (
  job_seq          integer not null references jobs (seq) on delete cascade,
  attempt_no       integer not null,
  run_id           text    not null,
  worker_id        text,
  org_id           text,
  queue            text    not null,
  type             text    not null,
  template_id      text,
  template_version integer,
  claimed_at       integer not null,
  started_at       integer,
  finished_at      integer,
  status           text,                                   -- null while it runs
  wait_us          integer,                                -- from due to claimed
  cpu_us           integer,
  peak_rss         integer,
  exit_code        integer,
  log_path         text,
  artifacts        text    not null default '[]',          -- json array, append-only
  params           blob,                                   -- null = equal to the job's frozen payload
  error            text,
  traceback        text,
  primary key (job_seq, attempt_no),
  constraint status_known     check (status in ('completed', 'failed', 'skipped')),
  constraint ended_has_status check ((status is null) = (finished_at is null)),
  constraint ended_has_start  check (status is null or started_at is not null),
  constraint artifacts_array  check (json_valid(artifacts) and json_type(artifacts) = 'array'),
  constraint attempts_count   check (attempt_no >= 1)
) strict, without rowid;

-- The roll-up of usage and the samples of the queues find runs by when they ended. Ends come in the order of time, so that
-- an entry is added at the right edge of the tree.
create index runs_finished on runs (finished_at) where finished_at is not null;

create trigger runs_frozen after update of job_seq, attempt_no, run_id, worker_id, org_id, queue, type, template_id,
  template_version, claimed_at, wait_us, params on runs
  when new.job_seq <> old.job_seq or new.attempt_no <> old.attempt_no or new.run_id <> old.run_id
    or new.worker_id is not old.worker_id or new.org_id is not old.org_id or new.queue <> old.queue or new.type <> old.type
    or new.template_id is not old.template_id or new.template_version is not old.template_version
    or new.claimed_at <> old.claimed_at or new.wait_us is not old.wait_us or new.params is not old.params
begin select raise(abort, 'this column of a run never changes'); end;

create trigger runs_started_once after update of started_at on runs
  when new.started_at is not old.started_at and (old.started_at is not null or old.status is not null)
begin select raise(abort, 'started_at of a run is written once'); end;

create trigger runs_ended_once after update of status, finished_at, exit_code, error, traceback, log_path, cpu_us, peak_rss on runs
  when old.status is not null
    and (new.status is not old.status or new.finished_at is not old.finished_at or new.exit_code is not old.exit_code
         or new.error is not old.error or new.traceback is not old.traceback or new.log_path is not old.log_path
         or new.cpu_us is not old.cpu_us or new.peak_rss is not old.peak_rss)
begin select raise(abort, 'a run that has ended never changes'); end;

create trigger runs_artifacts_append after update of artifacts on runs
  when substr(new.artifacts, 1, length(old.artifacts) - 1) <> substr(old.artifacts, 1, length(old.artifacts) - 1)
begin select raise(abort, 'artifacts are append-only'); end;

create trigger runs_delete before delete on runs when exists (select 1 from jobs where seq = old.job_seq)
begin select raise(abort, 'a run is deleted only together with its job'); end;

-- ------------------------------------------------------------------------------------- uniqueness and predecessors

create table idempotency_keys (
  scope      text not null,
  key        text not null,
  job_id     text not null,                                -- outlives the job: no foreign key
  expires_at integer,                                      -- null = for ever
  primary key (scope, key)
) strict, without rowid;
create index idempotency_keys_expiring on idempotency_keys (expires_at) where expires_at is not null;

create table dependencies (
  job_seq   integer not null references jobs (seq) on delete cascade,
  parent_id text    not null,                              -- outlives the parent: no foreign key
  rule      text    not null default 'cancel' check (rule in ('cancel', 'continue')),  -- when the parent ends badly
  done      integer not null default 0 check (done in (0, 1)),                         -- the parent's end was told
  primary key (parent_id, job_seq)
) strict, without rowid;
create index dependencies_job  on dependencies (job_seq);
create index dependencies_open on dependencies (parent_id, job_seq) where done = 0;

create table groups (
  group_id   text    primary key,
  name       text    not null default '',
  mode       text    not null default 'parallel' check (mode in ('parallel', 'sequential')),
  on_failure text    not null default 'stop' check (on_failure in ('stop', 'continue', 'skip')),
  total      integer not null default 0 check (total >= 0),
  remaining  integer not null default 0 check (remaining >= 0),
  succeeded  integer not null default 0 check (succeeded >= 0),
  failed     integer not null default 0 check (failed >= 0),
  cancelled  integer not null default 0 check (cancelled >= 0),
  created_at integer not null,
  finished_at integer,
  kept_by    integer,                                      -- of a large one, what retention last found: the seq of a member that keeps it; -t: at t, none
  constraint members_conserved check (total = remaining + succeeded + failed + cancelled),
  constraint ends_with_the_last check ((remaining = 0) = (finished_at is not null))
) strict, without rowid;
create index groups_newest on groups (created_at, group_id);

-- One row per key: global, queue:x, type:y, key:z, tag:t, org:o. Concurrency (used, max_used) and rate (tokens) alike.
create table limits (
  key         text primary key,
  used        integer not null default 0,
  max_used    integer,
  tokens      real,
  burst       real,
  per_second  real,
  refilled_at integer,
  wake_at     integer,                                     -- when a claim lets those through who wait
  weight      real not null default 1,
  paused_at   integer,
  declared    text,                                        -- as a program last described it
  constraint key_named       check (length(key) > 0),
  constraint permits_bounded check (used >= 0 and (max_used is null or max_used >= 0)),
  constraint bucket_whole    check ((tokens is null) = (burst is null) and (tokens is null) = (per_second is null)
                                    and (tokens is null) = (refilled_at is null)
                                    and (tokens is null or (tokens >= 0 and tokens <= burst))),
  constraint rate_passes     check (per_second is null or (per_second > 0 and per_second < 9e999
                                                           and burst >= 1 and burst < 9e999)),
  constraint weight_positive check (weight > 0 and weight < 9e999)
) strict, without rowid;

create index limits_waking on limits (wake_at) where wake_at is not null;

-- What each org of a fair queue had, in virtual time: core/fairness.py
create table shares (
  queue   text not null,
  share   text not null,
  started real not null,
  finish  real not null,
  primary key (queue, share),
  constraint turns_go_on check (finish >= started)
) strict, without rowid;

-- --------------------------------------------------------------------------------------------- queues and the fleet

create table queues (
  name       text primary key check (length(name) between 1 and 200),
  positions  text    not null default 'tail' check (positions in ('tail', 'dense')),
  fairness   text    not null default 'strict' check (fairness in ('strict', 'fair')),
  preset     text,
  settings   text,                                         -- json object: defaults for new jobs of this queue
  paused_at  integer,
  age_after  integer,                                      -- a job that waits for so long gets one more priority
  age_to     integer,                                      -- up to this one
  turning    text,                                         -- json: how far one that has become fair, or strict, is so
  created_at integer not null,
  updated_at integer not null,
  constraint ageing_whole check ((age_after is null) = (age_to is null) and (age_after is null or age_after > 0))
) strict, without rowid;

create table queue_stats (
  queue    text    not null,
  minute   integer not null,
  depth    text    not null,                               -- json: label -> count
  oldest   integer,                                        -- age of the job that is due longest
  finished text    not null,                               -- json: outcome -> count
  waits    text    not null,                               -- json: log-scale histogram
  runs     text    not null,
  primary key (minute, queue)                              -- written, read and dropped by the minute
) strict, without rowid;

create table workers (
  id             text primary key,
  hostname       text    not null,
  pid            integer not null default 0,
  pool_size      integer not null default 1,
  version        text    not null default '',
  queues         text,                                     -- json array
  types          text,                                     -- json array
  wakeups        text    not null default 'poll',
  running        integer not null default 0,
  started_at     integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000),
  last_heartbeat integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000.0) as integer) * 1000)
) strict, without rowid;
create index workers_heartbeat on workers (last_heartbeat);

create table leader (
  one          integer primary key check (one = 1),
  worker_id    text,
  epoch        integer not null default 0,
  leader_until integer
) strict;

create table reservations (
  reservation_id text primary key,
  queue          text    not null,
  reserved_by    text    not null,
  status         text    not null default 'ACTIVE' check (status in ('ACTIVE', 'RELEASED', 'EXPIRED')),
  reserved_at    integer not null,
  granted_at     integer,
  expires_at     integer not null,
  ended_at       integer,
  outcome        text,
  constraint active_is_open check ((status = 'ACTIVE') = (ended_at is null))
) strict, without rowid;
create unique index reservations_active on reservations (queue) where status = 'ACTIVE';

-- ------------------------------------------------------------------------------------------ templates and schedules

create table templates (
  template_id text    not null,
  version     integer not null,
  name        text    not null,
  type        text    not null,
  queue       text    not null,
  params      blob    not null,
  settings    text,
  archived_at integer,
  created_at  integer not null,
  primary key (template_id, version),
  constraint template_whole check (version >= 1 and length(template_id) > 0 and length(name) > 0 and length(type) > 0
                                   and length(queue) between 1 and 200)
) strict, without rowid;
create unique index templates_name on templates (name, version);

create table schedules (
  schedule_id       text primary key,
  template_id       text    not null,
  name              text    not null unique,
  cron_expression   text    not null,
  timezone          text    not null default 'UTC',
  enabled           integer not null default 1,
  param_overrides   blob,
  catch_up          text    not null default 'last',
  catch_up_cap      integer not null default 100,
  overlap           text    not null default 'allow',
  jitter            integer not null default 0,
  declared          text,                                  -- the fingerprint of the code that declares it
  declared_at       integer,
  last_triggered_at integer,
  next_trigger_at   integer,
  created_at        integer not null,
  updated_at        integer not null,
  constraint schedule_whole     check (length(schedule_id) > 0 and length(template_id) > 0 and length(name) > 0
                                       and length(cron_expression) > 0 and length(timezone) > 0 and enabled in (0, 1)),
  constraint catch_up_known     check (catch_up in ('skip', 'last', 'all') and catch_up_cap >= 1),
  constraint overlap_known      check (overlap in ('allow', 'skip', 'queue-one')),
  constraint paused_has_no_next check (enabled = 1 or next_trigger_at is null),
  constraint jitter_positive    check (jitter >= 0)
) strict, without rowid;
create index schedules_due on schedules (next_trigger_at) where next_trigger_at is not null;
create index schedules_template on schedules (template_id);

-- ------------------------------------------------------------------------------------------------- what leaves here

create table webhooks (
  webhook_id text primary key,
  url        text    not null,
  events     text    not null,                             -- json array of event names
  secret     text    not null,
  org_id     text,
  enabled    integer not null default 1,
  created_at integer not null,
  old_secret text,                                         -- signs along until old_until
  old_until  integer,
  disabled_reason text
) strict, without rowid;

create table outbox (
  event_id   integer primary key autoincrement,
  event      text    not null,
  job_id     text,                                         -- what it is about: a job, group, schedule, queue or webhook
  org_id     text,
  body       text    not null,
  created_at integer not null,
  fanned_at  integer                                       -- its deliveries were made
) strict;
create index outbox_waiting on outbox (event_id) where fanned_at is null;
create index outbox_fanned on outbox (created_at) where fanned_at is not null;

create table deliveries (
  event_id        integer not null,
  webhook_id      text    not null,
  status          text    not null default 'queued' check (status in ('queued', 'sent', 'failed')),
  attempts        integer not null default 0,
  next_attempt_at integer,
  taken           integer not null default 0,              -- somebody is sending it, until next_attempt_at
  finished_at     integer,
  response        text,
  log             text,                                    -- json array of (at, took, status, error)
  primary key (event_id, webhook_id),
  constraint queued_has_a_time check ((status = 'queued') = (next_attempt_at is not null))
) strict, without rowid;
create index deliveries_due on deliveries (webhook_id, next_attempt_at) where status = 'queued';
create index deliveries_sent on deliveries (webhook_id, finished_at) where status = 'sent';
create index deliveries_of on deliveries (webhook_id, status, event_id);

-- Runs that left no row: those of one settlement that are of one kind and ended within one minute, the last of them `at`.
-- Counted like runs, and kept a little longer.
create table usage_batches (
  batch_id  integer primary key autoincrement,
  at        integer not null,
  org_id    text,
  queue     text    not null,
  type      text    not null,
  outcome   text    not null,
  runs      integer not null,
  run_us    integer not null,
  wait_us   integer not null,
  cpu_us    integer not null,
  peak_rss  integer
) strict;
create index usage_batches_at on usage_batches (at);

create table usage_hourly (
  hour     integer not null,
  org_id   text    not null,
  queue    text    not null,
  type     text    not null,
  outcome  text    not null,
  runs     integer not null,
  run_us   integer not null,
  wait_us  integer not null,
  cpu_us   integer not null,
  peak_rss integer,
  primary key (hour, org_id, queue, type, outcome)
) strict, without rowid;

-- The same by the day, of hours that are over: what is asked for by days, or for a month, is not read hour by hour.
create table usage_daily (
  day      integer not null,
  org_id   text    not null,
  queue    text    not null,
  type     text    not null,
  outcome  text    not null,
  runs     integer not null,
  run_us   integer not null,
  wait_us  integer not null,
  cpu_us   integer not null,
  peak_rss integer,
  primary key (day, org_id, queue, type, outcome)
) strict, without rowid;

create table api_tokens (
  token_id     text primary key,
  name         text    not null,
  digest       blob    not null unique,                    -- sha-256; the token itself is never stored
  scopes       text    not null,
  org_id       text,
  queues       text,
  expires_at   integer,
  last_used_at integer,
  revoked_at   integer,
  created_at   integer not null
) strict, without rowid;
create unique index api_tokens_name on api_tokens (coalesce(org_id, ''), name) where revoked_at is null;

create table audit (
  audit_id integer primary key autoincrement,
  at       integer not null,
  actor    text    not null,
  action   text    not null,
  subject  text    not null,
  detail   text,                                           -- json object
  org_id   text,                                           -- to which the actor was bound
  selection text,                                          -- how those that were changed were chosen
  count    integer not null default 1
) strict;

create trigger audit_frozen before update on audit begin select raise(abort, 'the audit log is append-only'); end;
create trigger audit_kept   before delete on audit begin select raise(abort, 'the audit log is append-only'); end;
