"""What can be read of a store besides jobs, as values: a new noun adds a query, not a method.

`Driver.read` answers each of them with rows, sorted as said here.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from windlass.core.named import Named
from windlass.records import (
    ApiToken,
    AuditEntry,
    AuditLine,
    Delivery,
    DeliveryStatus,
    Event,
    Fault,
    GroupOwner,
    QueueSample,
    Usage,
    Webhook,
    WorkerInfo,
)
from windlass.types import (
    Dependency,
    Group,
    Hold,
    Job,
    Limit,
    LimitUse,
    MemberCount,
    Micros,
    Queue,
    RunningCount,
    Schedule,
    State,
    Template,
)

R = TypeVar("R")


class Query(Named, Generic[R], frozen=True, kw_only=True):
    """A question whose answer is a list of rows of one kind."""


class StoreId(Query[str], frozen=True):
    """What tells this store from all others, whatever its address: made with it, and never changed. Nothing where only the
    process that made the store can open it."""


class AllQueues(Query[Queue], frozen=True):
    """Queues that somebody declared or paused, sorted by name."""


class AllGroups(Query[Group], frozen=True):
    """Groups, sorted by id."""


class NewestGroups(Query[Group], frozen=True, kw_only=True):
    """The `limit` groups that were made last, the newest first (and then by id, the greatest first)."""

    limit: int = 50


class GroupMembers(Query[Job], frozen=True, kw_only=True):
    """The first `limit` members of a group in their order. Rows that another took over from are left out."""

    group_id: str
    limit: int = 50


class GroupsById(Query[Group], frozen=True, kw_only=True):
    """The groups with these ids that exist, sorted by id."""

    ids: tuple[str, ...]


class MembersOf(Query[MemberCount], frozen=True, kw_only=True):
    """How the members of these groups stand, sorted by group, state and whether they have begun."""

    ids: tuple[str, ...]


class OwnersOf(Query[GroupOwner], frozen=True, kw_only=True):
    """The orgs and queues of the members of these groups, sorted by group, org (none first) and queue."""

    ids: tuple[str, ...]


class ParentsOf(Query[Dependency], frozen=True, kw_only=True):
    """What a job waits for or has waited for, sorted by the parents' ids. A link of a retry chain answers for the first
    link before it that has parents."""

    job_id: str


class DependantsOf(Query[Dependency], frozen=True, kw_only=True):
    """The jobs that wait for a job, or have waited for it or for an earlier link of its chain, oldest first."""

    job_id: str
    limit: int = 100


class EdgesOf(Query[Dependency], frozen=True, kw_only=True):
    """Edges of a group: what its first `members` wait for or have waited for, and who waits for these; the oldest job
    first, then by the parents' ids, at most `limit`. Each link of a retry chain is a member and answers for itself."""

    group_id: str
    members: int = 1_000
    limit: int = 5_000


class AllLimits(Query[Limit], frozen=True):
    """Limits, sorted by key."""


class LimitUses(Query[LimitUse], frozen=True, kw_only=True):
    """The jobs that wait for limits and those that hold their permits, sorted by key; at most `limit` holders of each,
    the oldest first."""

    keys: tuple[str, ...]
    limit: int = 10


class NextRefill(Query[Micros], frozen=True, kw_only=True):
    """When a claim of these queues may find a token that is missing now, if jobs of theirs are due that wait for one: one
    instant, or none. With `types`, what others are parked for does not count; but the rates over a queue and over all count
    while anything at all is due there, since nothing tells the first job of a type without going through the queue."""

    queues: tuple[str, ...]
    now: Micros
    types: tuple[str, ...] | None = None


class AllWebhooks(Query[Webhook], frozen=True):
    """The webhooks, sorted by id."""


class AllEvents(Query[Event], frozen=True):
    """The outbox, oldest first."""


class WaitingEvents(Query[Event], frozen=True, kw_only=True):
    """Events whose deliveries are still to be made, the first of them."""

    limit: int = 1


class DueDeliveries(Query[Delivery], frozen=True, kw_only=True):
    """What is to be sent to these webhooks by then, of each the `each` that are due longest; sorted by due time, event and
    webhook. What somebody has taken is due when his time is over."""

    webhooks: tuple[str, ...]
    by: Micros
    each: int = 10


class DeliveriesOf(Query[Delivery], frozen=True, kw_only=True):
    """Deliveries to a webhook, newest event first; those before the event `before`."""

    webhook_id: str
    status: DeliveryStatus | None = None
    before: int | None = None
    limit: int = 50


class DeliveryOf(Query[Delivery], frozen=True, kw_only=True):
    """One delivery, or nothing."""

    event_id: int
    webhook_id: str


class AllWorkers(Query[WorkerInfo], frozen=True):
    """The registry, sorted by id. `is_leader` and `leader_until` tell who leads, or led last."""


class RunningNow(Query[RunningCount], frozen=True):
    """Who has taken how many jobs of which queue that have not ended, in any order: by the leases, not by what workers said
    at their last heartbeat."""


class SamplesSince(Query[QueueSample], frozen=True, kw_only=True):
    """What `SampleQueues` wrote, of minutes that began at `since` or later, sorted by minute and queue."""

    since: Micros = 0


class SamplesAt(Query[QueueSample], frozen=True, kw_only=True):
    """What `SampleQueues` wrote, of these minutes only."""

    minutes: tuple[Micros, ...]


class Seen(Struct, frozen=True):
    """Names that stand together in a job."""

    queue: str
    type: str
    org_id: str | None
    worker_id: str | None
    tags: tuple[str, ...]


class SeenLately(Query[Seen], frozen=True, kw_only=True):
    """The names in the newest `jobs` jobs, each combination once, in any order."""

    jobs: int = 2_000


class UsageSince(Query[Usage], frozen=True, kw_only=True):
    """What `RollUpUsage` added up, of hours that began at `since` or later, sorted by hour, org, queue, type and
    outcome."""

    since: Micros = 0


class UsageBy(Query[Usage], frozen=True, kw_only=True):
    """The same added up: hours from `since` to before `until`, a row for each span of `step` microseconds (0 = one for all)
    and for each org, queue, type and outcome that is asked for; what is not is "" in its row, and what is 0 is `hour`. At
    most `limit` rows, sorted by all of these."""

    since: Micros
    until: Micros
    step: Micros = 0
    by_org: bool = False
    by_queue: bool = False
    by_type: bool = False
    by_outcome: bool = False
    org_id: str | None = None  # "" = runs of no org
    queues: tuple[str, ...] | None = None
    type: str | None = None
    limit: int = 1_000


class CountedUntil(Query[Micros], frozen=True):
    """Up to when runs are in the usage: one instant, or none before the first roll-up."""


class AllTemplates(Query[Template], frozen=True, kw_only=True):
    """The newest version of every template, sorted by name; with `name` all versions of that one, oldest first."""

    name: str | None = None


class AllSchedules(Query[Schedule], frozen=True):
    """Schedules, sorted by name."""


class DueSchedules(Query[Schedule], frozen=True, kw_only=True):
    """Schedules whose next time is `by` or earlier, sorted by that time and by id, at most `limit`."""

    by: Micros
    limit: int = 100


class Faults(Query[Fault], frozen=True):
    """Rows that contradict each other, by kind and subject: runs without a job, running jobs without their run or whose run
    has ended, limits that count other permits than are held. Looks at every run: for people, not for workers."""


class JobsAhead(Query[int], frozen=True, kw_only=True):
    """How many ready jobs of its queue stand before a queued job in dispatch order, counted up to `most`: one number. No
    answer for a job that is not queued."""

    job_id: str
    most: int = 10_000


class EndedJobs(Query[int], frozen=True, kw_only=True):
    """How many jobs ended in this state, links of chains included, counted up to `most`: one number."""

    state: State
    most: int = 2_000_000


class InOrder(Query[Job], frozen=True, kw_only=True):
    """The first `limit` queued jobs of a queue in dispatch order, whatever they wait for."""

    queue: str
    limit: int = 50


class LeasedUnder(Query[Job], frozen=True, kw_only=True):
    """The jobs of these queues that this worker holds under this token at `now`, in dispatch order, at most `limit`: what a
    claim took whose reply was lost."""

    token: str
    worker_id: str
    queues: tuple[str, ...]
    now: Micros
    limit: int


class AllTokens(Query[ApiToken], frozen=True):
    """Tokens, revoked ones too, in the order in which they were made (and then by id)."""


class TokenByDigest(Query[ApiToken], frozen=True, kw_only=True):
    """The token whose secret has this SHA-256, if there is one, whatever became of it."""

    digest: bytes


class AllHolds(Query[Hold], frozen=True):
    """Holds, active or ended, in the order in which they were asked for (and then by id)."""


class AuditLog(Query[AuditLine], frozen=True, kw_only=True):
    """Lines of the audit log, written at `since` or later, oldest first."""

    since: Micros = 0


class AuditPage(Query[AuditEntry], frozen=True, kw_only=True):
    """Lines of the audit log, newest first, at most `limit`; with `before` those that are older than the line of that
    number, and with `after` those that are newer: who looks for few lines bounds how many are looked at. What is None does
    not matter; `action` may also be a noun, such as `job`, for all that is done to it."""

    limit: int = 50
    before: int | None = None
    after: int = 0
    since: Micros = 0
    actor: str | None = None
    action: str | None = None
    subject: str | None = None
    org_id: str | None = None


class LastAudited(Query[int], frozen=True):
    """The number of the newest line of the audit log, or nothing."""
