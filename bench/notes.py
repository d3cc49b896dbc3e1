"""What a reader must know before quoting a figure, for each store."""

from __future__ import annotations

from typing import Final

import msgspec


class Notes(msgspec.Struct, frozen=True):
    title: str
    settings: str
    text: str


PRESSURE: Final = """\
- Under pressure: what is beside a drain is in the same queue, of a lower priority where it is ready, and nobody counts it.
  A retry storm runs every job twice; its rate is of jobs. Urgent jobs count while the backlog lasts. A steady stream is
  sent in calls every 10 ms, each job with the time at which its call began; its handler appends 16 bytes to a file.
"""

SQLITE: Final = Notes(
    "Results",
    "WAL, `synchronous=FULL`, foreign keys on, 64 MB of cache, on our side and the bare loop's.",
    f"""\
- The bare loop is written for speed by the same people who wrote the driver. It runs on the schema of our migrations,
  so triggers, CHECKs, indexes and the foreign key slow both sides alike: the ratio says what the driver costs, not
  what the schema costs.
- The bare loop reads 8 columns of a job, the driver 23; the bare loop does not look for expired leases, due times,
  limits or paused queues. It settles a batch under one token; the driver takes the token of each job.
- The bare loop works in the caller's thread. The driver hands calls to its writer thread and waits for the answer, but
  for single enqueues, which it commits in the caller's thread while the disk is quick and nobody else writes. Callers
  that overlap share commits, which only the rows with 10 callers show.
- `executemany` runs one INSERT for each row. Many rows in one INSERT are faster, and are shown beside it.
- Every commit is durable (`synchronous=FULL`). On a disk with a slow fsync all small batches fall, and ratios rise.
- The app and its workers are measured as users have them: tasks with three arguments that are decoded for each call, jobs
  enqueued by the tasks' own calls, workers started by `python -m windlass worker` with default settings (20 async
  handlers, 8 threads). A drain runs from the opening of a paused queue, all processes ready, to the moment at which
  nothing is queued and nothing runs, seen by a look every 2 ms; the cold start of prefetching is part of it.
- Two worker processes run under the supervisor (`--processes 2`). SQLite has one writer: they share it.
- Pick-up: one job every 20 ms from another process, from just before the call that enqueues (its durable commit is
  inside) to the start of the handler. Processor time and memory are those of the whole process tree, in /proc; an idle
  worker is watched after a few jobs, and its time comes in steps of 10 ms.
- Huey is as it comes: SqliteHuey, 4 threads, synchronous FULL. It deletes a job before it runs it (a crash loses it),
  keeps no history and writes nothing at its end, so its drain is taken from the first handler's start to the last one's.
  Its handler appends 16 bytes to a file (about 1.5 µs); ours is empty. It drains fewer jobs; rates are compared.
- Each sample is a process of its own on a fresh file. Sides alternate, so that both meet the same weather; a ratio is
  the median of those of the rounds. Differences smaller than the ranges mean nothing.
- Every drain is counted afterwards: a job that is not succeeded, or a run that is not completed, fails the benchmark.
- Where the time of a drained job goes: the writer's thread is busy for nearly all of it, the event loop for a third. Of
  21 µs a job (100,000 jobs, timed inside of the worker) the writer spends 4.6 on ending jobs, 3.2 on leasing them, 3.0 on
  commits (1.0 of it waiting for the disk), 2.2 on reading what it claims, 2.0 and 1.4 on ending and opening runs, 1.3 on
  checkpoints, about 2 on waiting for its turn in Python. A batch ends at a different moment for each job, which the bare
  loop spares itself. *12 × Huey* would be three quarters of the bare loop's rate, which is 16 × Huey's: a batch of the
  driver alone, without handlers, is at that.
- *1,000 queues*: a claim looks into each of them, whatever it brings. *Turns of 1,000 orgs*: a batch of 500 brings one
  job or two of each org, so it looks into as many places of an index instead of one, and writes as many clocks.
{PRESSURE}- SQLite counts no statements for us, so there are none to tell.
""",
)

POSTGRES: Final = Notes(
    "Results on PostgreSQL",
    "One private server on loopback for all sides: fsync and synchronous_commit on, shared_buffers 1 GB, "
    "max_connections 200,\neverything else as it comes. Clients, workers and server share the cores.",
    f"""\
- The bare loop runs the driver's own statements on the schema of our migrations: psycopg in two threads, claims on one
  connection overlapped with settles on the other, 500 jobs each. The ratio says what driver and worker cost, not what the
  schema and the statements cost; those are in both. The loop by asyncpg has one event loop, for information.
- Every side begins with a loaded table after VACUUM ANALYZE and a CHECKPOINT, so the first change of each page writes the
  whole page to the WAL: bytes a job hold that share, and would be fewer in the middle of a checkpoint's interval.
- WAL and the server's processor time are those of the whole server meanwhile: sessions, WAL writer, checkpointer,
  autovacuum, and our looks at whether a drain is done (at one row, every 5 ms).
- Workers are as users have them: `python -m windlass worker` with default settings (20 async handlers), tasks with three
  arguments that are decoded for each call, full history. A drain runs from the opening of a paused queue, all processes
  ready, to the moment at which nothing is queued and nothing runs; the cold start of prefetching is part of it. Two
  processes run under the supervisor, whose memory is counted with theirs.
- The others run in the settings that were found best for each: PgQueuer with asyncpg, uvloop and batches of 500;
  Procrastinate with 20 jobs at once, deleting what succeeded; Graphile Worker with 24 jobs at once, a local queue of 500
  and batched completion. Their drain is taken from the first handler's start until their own table has nothing left, so
  the start of their interpreters is not in it; that of ours is not either.
- PgQueuer moves finished jobs to a log (three rows a job); Procrastinate (so set) and Graphile Worker keep nothing of a job
  that succeeded. Ours keeps the job and a run row with its times, worker and outcome.
- Handlers of the others append 16 bytes to a file (about 1.5 µs); ours are empty in a drain. Payloads: theirs one number,
  ours three arguments.
- Pick-up: one job every 20 ms from another process, from just before the call that enqueues (its durable commit is
  inside) to the start of the handler.
- Where the time went before short calls flew (docs/adr/0018), and where it goes now, by timestamps inside of both processes
  and the server's own log of durations, in one minute of a busy machine: the worker hears of the job after 2.16 → 1.79 ms,
  its claim is sent after 2.80 → 2.26, answered after 4.15 → 3.40, the handler begins after 4.62 → 3.70. Two durable commits
  and the server's 0.4 ms for the INSERT and 0.7 ms for the claim are in it. Of `enqueue_many` of 1,000: making the jobs
  3.9 → 3.6 ms, checking them 1.0 → 0.7, the statement 0.55 → 0.1, the server 10.3 → 8.4, the rest 2.5 → 1.2.
- Where the time of a drained job goes: of the server's, about half is the claim, half the settle. In a claim of 500
  that took 13 ms of it (EXPLAIN ANALYZE): finding and locking 0.6 ms, changing the jobs 7 (a new version of each, three
  index entries, CHECKs, the conditions of triggers), writing the runs 1.2, the foreign key 2.1, sorting and answering
  the rest. What a part costs claim and settle together, by leaving it out of the schema, 52 batches of 500 of each kind
  in turn, on an uneven day (the whole schema against itself: 2 %): the foreign key 16, 14 and 7 % in three tries; in
  one try each all CHECKs of jobs 8 %, all triggers 7 %, the index by id 7 %. Without the first three a drain cost the
  server 47 µs a job, with them 61 (medians of seven): rules that the schema enforces make a job 30 % dearer. One claim
  follows the other within half a millisecond, and both cores are 85 to 90 % busy: two claims at once, of half the size and
  on two connections, made drains 9 % slower (three pairs). Shorter turns of the event loop made no difference that could
  be told from noise; `synchronous_commit = off` made drains 3 to 31 % quicker in four pairs.
- What stands in the way of the targets that are missed. *Two cores* have room for 2,000,000 / (worker's + server's µs
  a job) jobs a second; a drain stays below that, since now and then one of the two rests. PgQueuer takes less of the
  server and far more of its one process, which has no more than one core: that is why it is slower. 1.8 times its rate
  leaves 2,000,000 / (1.8 × its rate) µs a job for worker and server together, and of that only what no core rests; the
  rules that the schema enforces (above) are a part of ours that it does not pay. *Two processes, handlers of 50 µs*:
  one process keeps its core busy with handler and worker, and the server takes most of the other one, so two processes
  share what is left: (handler + worker) × 2 / (handler + worker + server) times as much at best. For 1.3 times the
  server would have to do with 7/13 of what handler and worker take. *Calls of 1,000*: the bare INSERT into the same
  table is itself less than twice as fast as PgQueuer's call, which fills a third of the columns. *Pick-up*: two durable
  commits, one after the other, are more than a millisecond here. *1,000 queues*: a claim looks into each of them,
  whatever it brings (6 µs), for holds, pauses, lapsed leases and due times too; an index over all queues would spare
  that, and cost every job of every store an entry.
- Memory of an idle worker, megabytes: the interpreter 8.6, asyncio with the TLS library 10.8, psycopg with its own
  libpq and TLS library 12.1; the rest is ours, of which 9.7 are the modules of the app, 3.3 those of the driver.
- Processor time of workers is that of the whole process tree, in /proc, in steps of 10 ms; that of the others starts with
  their first handler.
- Each sample is a process of its own on a fresh database. Sides alternate, so that both meet the same weather; a ratio is
  the median of those of the rounds. Differences smaller than the ranges mean nothing.
- Every drain is counted afterwards: a job that is not succeeded, or a run that is not completed, fails the benchmark.
{PRESSURE}- Statements are counted by pg_stat_statements, on every side: those of the database's sessions, our looks
  included. Counting costs the server a little for each statement.
- Beside an open transaction: another session has a snapshot (repeatable read) and does nothing, so no vacuum can remove
  what dies meanwhile. The time of a claim is the server's own, by pg_stat_statements, a mean for every second.
""",
)
