"""Enqueueing with keys: who holds a key is decided by the unique index, never by an earlier look.

A batch is taken in rounds in which no key comes twice. In a round the keys are taken in their order (`on conflict do
nothing` in spirit: what somebody else is taking is waited for), then the jobs whose keys are free are inserted, then a
second statement reads who holds the others: one statement alone would miss a commit that it had to wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windlass.core.eligibility import is_due
from windlass.core.uniqueness import keys_of
from windlass.drivers.postgres.arrays import Ints, Texts
from windlass.drivers.postgres.jobs import insert, insert_free, is_keyed
from windlass.drivers.postgres.limits import GATE, lock
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.rows import limits_of, mapping_out
from windlass.drivers.statement import Op
from windlass.drivers.values import Enqueued
from windlass.errors import DuplicateId, DuplicateJob, TransactionConflict
from windlass.types import Micros, NewJob

TRIES: Final = 3

Key = tuple[str | None, str | None]  # the scope of an idempotency key, and the key


def enqueue(jobs: Sequence[NewJob], now: Micros, *, ours: bool = True) -> Op[list[Enqueued]]:
    """Inside a transaction, with or without keys; `ours`: it ends as soon as this does. The jobs were checked."""
    if not is_keyed(jobs):
        yield from insert(jobs, now)
        return [Enqueued(job.id) for job in jobs]
    answers: list[Enqueued] = []
    turn: list[NewJob] = []
    promised: set[tuple[str, ...]] = set()
    for job in jobs:
        keys = {*keys_of(job), ("id", job.id)}
        if not promised.isdisjoint(keys):  # one of those before it may hold its key: store them first
            answers += yield from enqueue_round(turn, now, ours=ours)
            turn, promised = [], set()
        turn.append(job)
        promised |= keys
    answers += yield from enqueue_round(turn, now, ours=ours)
    return answers


def enqueue_round(jobs: Sequence[NewJob], now: Micros, *, ours: bool) -> Op[list[Enqueued]]:
    """Jobs that share no key. A holder that ends between two statements is the reason to look again."""
    answers: dict[str, Enqueued] = {}
    mine: set[Key] = set()
    for _ in range(TRIES):
        left = [job for job in jobs if job.id not in answers]
        mine |= yield from take_keys(left, now)
        free = [job for job in left if job.idempotency_key is None or (job.idempotency_scope, job.idempotency_key) in mine]
        unheld = yield from without_holder(free)
        fresh = (yield from insert_free(unheld, now)) if unheld else set()
        answers |= {job.id: Enqueued(job.id) for job in left if job.id in fresh}
        others = [job for job in left if job.id not in fresh]
        named = yield from named_by_keys(others, now)
        held: list[tuple[NewJob, str]] = []
        for job in others:
            key = (job.idempotency_scope, job.idempotency_key)
            own = key not in mine and named.get(key) == job.id  # since an earlier call; perhaps it is gone
            holder = (yield from chain_head(job.id)) if own else (yield from holder_of(job, named.get(key)))
            if holder is not None:
                held.append((job, holder))
            elif (yield SQL.ids_in_use(ids=Texts([job.id]))):
                raise DuplicateId(job.id)
        locked = yield from lock_holders(held, ours=ours)
        for job, holder in held:
            taken = (job.idempotency_scope, job.idempotency_key) in mine
            answers[job.id] = yield from duplicate(job, holder, locked, now, ours=ours, taken=taken)
        if len(answers) == len(jobs):
            return [answers[job.id] for job in jobs]
    raise TransactionConflict


def without_holder(jobs: Sequence[NewJob]) -> Op[list[NewJob]]:
    """Those of the jobs whose keys are free as far as one can see: a duplicate that is known uses up no number and takes no
    dense place. What the look misses, the index refuses."""
    keys = Texts(job.dedupe_key for job in jobs if job.dedupe_key is not None)
    held = {row[0] for row in (yield SQL.dedupe_keys_held(keys=keys))} if keys else set()
    free: list[NewJob] = []
    for job in jobs:
        fired = job.schedule_id is not None and job.fire_at is not None
        if fired and (yield SQL.fire_holder(schedule_id=job.schedule_id, fire_at=job.fire_at)):
            continue
        if job.dedupe_key is None or job.dedupe_key not in held:
            free.append(job)
    return free


def take_keys(jobs: Sequence[NewJob], now: Micros) -> Op[set[Key]]:
    keyed = [job for job in jobs if job.idempotency_key is not None]
    if not keyed:
        return set()
    rows = yield SQL.take_keys(
        scopes=Texts(job.idempotency_scope for job in keyed), keys=Texts(job.idempotency_key for job in keyed),
        job_ids=Texts(job.id for job in keyed), expires_at=Ints(job.idempotency_expires_at for job in keyed), now=now,
    )  # fmt: skip
    return {(scope, key) for scope, key in rows}


def named_by_keys(jobs: Sequence[NewJob], now: Micros) -> Op[dict[Key, str]]:
    """For whom the idempotency keys of these jobs are taken: one question for all, however many."""
    keyed = [job for job in jobs if job.idempotency_key is not None]
    if not keyed:
        return {}
    rows = yield SQL.key_holders(
        scopes=Texts(job.idempotency_scope for job in keyed), keys=Texts(job.idempotency_key for job in keyed), now=now
    )
    return {(scope, key): job_id for scope, key, job_id in rows}


def holder_of(job: NewJob, named: str | None) -> Op[str | None]:
    """The id of the job that holds one of this job's keys, at the head of its chain; `named` by its idempotency key."""
    if named is not None and named != job.id:
        return (yield from chain_head(named))
    if job.dedupe_key is not None:
        rows = yield SQL.dedupe_holder(key=job.dedupe_key)
        if rows:
            return str(rows[0][0])
    if job.schedule_id is not None and job.fire_at is not None:
        rows = yield SQL.fire_holder(schedule_id=job.schedule_id, fire_at=job.fire_at)
        if rows:
            return (yield from chain_head(rows[0][0]))
    return None


def lock_holders(held: Sequence[tuple[NewJob, str]], *, ours: bool) -> Op[set[str]]:
    """Jobs that may be changed, in the order of their numbers; answers which. Before them the limits of those that ask for
    their permits again, because whoever lets one of them through must not do so in between; a caller's transaction, which
    may be long, would keep a whole fleet waiting for them, so there the leader's recount mends what that misses. A running
    job is its worker's: no lock on it may outlast its heartbeat."""
    changed = {holder for job, holder in held if job.on_duplicate == "touch"}
    replaced = Texts(holder for job, holder in held if job.on_duplicate == "replace")
    if replaced:
        rows = yield SQL.replaceable(ids=replaced)  # what is not so now never will be
        changed.update(row[0] for row in rows)
        if ours:
            yield from lock(key for row in rows for key in limits_of(row[1:]))
    return {row[0] for row in (yield SQL.lock_holders(ids=Texts(changed)))} if changed else set()


def chain_head(job_id: str) -> Op[str]:
    head = yield SQL.chain_head(id=job_id)
    return str(head[0][0] if head else job_id)


def duplicate(job: NewJob, holder: str, locked: set[str], now: Micros, *, ours: bool, taken: bool) -> Op[Enqueued]:
    """`taken`: its idempotency key was free, and is now this job's."""
    if job.on_duplicate == "raise":
        raise DuplicateJob(holder, job.idempotency_key or job.dedupe_key or "")
    if job.on_duplicate == "touch" and holder in locked:
        yield SQL.touch(id=holder, now=now)
    elif job.on_duplicate == "replace" and holder in locked:
        replaced = yield SQL.replace_job(
            id=holder, payload=job.payload, codec=job.codec, headers=mapping_out(job.headers), run_at=job.run_at,
            due=is_due(job.run_at, now), now=now,
        )  # fmt: skip
        for row in replaced if ours else ():  # it may have been the one that was let through
            yield from GATE.let_through(limits_of(row), now)
    if taken:  # and answered by another key: the same call again must be too
        yield SQL.give_key(scope=job.idempotency_scope, key=job.idempotency_key, job_id=holder)
    return Enqueued(holder, existed=True)


def answers_of(jobs: Sequence[NewJob], stored: set[str], now: Micros) -> Op[list[Enqueued] | None]:
    """What an enqueue was to be told whose reply was lost. These ids of it are there, so all of it was stored; the others
    were duplicates, or have ended and are gone. None: of one of them nobody can say which."""
    answers: list[Enqueued] = []
    named = yield from named_by_keys([job for job in jobs if job.id not in stored], now)
    for job in jobs:
        if job.id in stored or job.on_duplicate == "raise" or not is_keyed([job]):  # never a duplicate
            answers.append(Enqueued(job.id))
            continue
        theirs = named.get((job.idempotency_scope, job.idempotency_key))
        holder = yield from holder_of(job, theirs)
        if holder is not None:
            answers.append(Enqueued(holder, existed=True))
        elif theirs == job.id:
            answers.append(Enqueued(job.id))
        else:
            return None
    return answers
