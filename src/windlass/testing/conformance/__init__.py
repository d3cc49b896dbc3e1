# ruff: noqa: E402 - whoever lacks pytest is told so before a module asks for it
"""The proof of a driver: subclass, say how to make one, run pytest.

    class TestMine(DriverConformance):
        def make_driver(self) -> Driver:
            return MyDriver(fresh_place())

A driver whose capabilities say `durable` and `shared` adds `DurabilityPromises` and tells how to open `another`; one that
says `sql` adds `SqlPromises`, one that says `transactional` adds `TransactionPromises`. Every promise is a method here,
and every method's docstring is a line of the contract.
"""

from windlass.extras import needs

needs("testing", "pytest")

from windlass.testing.conformance.acting import ActingPromises
from windlass.testing.conformance.chains import ChainPromises
from windlass.testing.conformance.concurrency import ConcurrencyPromises
from windlass.testing.conformance.dependencies import DependencyPromises
from windlass.testing.conformance.durability import DurabilityPromises
from windlass.testing.conformance.duties import DutyPromises
from windlass.testing.conformance.enqueue import EnqueuePromises
from windlass.testing.conformance.events import EventPromises
from windlass.testing.conformance.fairness import FairnessPromises
from windlass.testing.conformance.firing import FiringPromises
from windlass.testing.conformance.fleet import FleetPromises
from windlass.testing.conformance.groups import GroupPromises
from windlass.testing.conformance.guarding import GuardPromises
from windlass.testing.conformance.histories import HistoryPromises
from windlass.testing.conformance.holds import HoldPromises
from windlass.testing.conformance.inspecting import InspectionPromises
from windlass.testing.conformance.leases import LeasePromises
from windlass.testing.conformance.lifecycle import LifecyclePromises
from windlass.testing.conformance.limits import LimitPromises
from windlass.testing.conformance.listings import ListingPromises
from windlass.testing.conformance.ordering import OrderPromises
from windlass.testing.conformance.owing import OwingPromises
from windlass.testing.conformance.people import PeoplePromises
from windlass.testing.conformance.prefetching import PrefetchPromises
from windlass.testing.conformance.rates import RatePromises
from windlass.testing.conformance.raw_sql import SqlPromises
from windlass.testing.conformance.recovery import RecoveryPromises
from windlass.testing.conformance.regressions import RegressionPromises
from windlass.testing.conformance.reordering import ReorderPromises
from windlass.testing.conformance.retention import RetentionPromises
from windlass.testing.conformance.sampling import SamplingPromises
from windlass.testing.conformance.schedules import SchedulePromises
from windlass.testing.conformance.settlement import SettlementPromises
from windlass.testing.conformance.several import SeveralQueuesPromises
from windlass.testing.conformance.shared_rows import SharedRowPromises
from windlass.testing.conformance.tokens import TokenPromises
from windlass.testing.conformance.transactions import TransactionPromises
from windlass.testing.conformance.uniqueness import UniquenessPromises
from windlass.testing.conformance.usage import UsagePromises
from windlass.testing.conformance.webhooks import WebhookPromises


class DriverConformance(
    EnqueuePromises,
    OrderPromises,
    ReorderPromises,
    HoldPromises,
    LeasePromises,
    SeveralQueuesPromises,
    SettlementPromises,
    PrefetchPromises,
    GuardPromises,
    RecoveryPromises,
    ChainPromises,
    UniquenessPromises,
    SharedRowPromises,
    LimitPromises,
    RatePromises,
    FairnessPromises,
    EventPromises,
    WebhookPromises,
    DependencyPromises,
    OwingPromises,
    RetentionPromises,
    SamplingPromises,
    GroupPromises,
    PeoplePromises,
    SchedulePromises,
    FiringPromises,
    InspectionPromises,
    ListingPromises,
    FleetPromises,
    TokenPromises,
    ActingPromises,
    UsagePromises,
    HistoryPromises,
    DutyPromises,
    LifecyclePromises,
    ConcurrencyPromises,
    RegressionPromises,
):
    """What every driver promises."""


__all__ = [
    "ActingPromises",
    "ChainPromises",
    "ConcurrencyPromises",
    "DependencyPromises",
    "DriverConformance",
    "DurabilityPromises",
    "DutyPromises",
    "EnqueuePromises",
    "EventPromises",
    "FairnessPromises",
    "FiringPromises",
    "FleetPromises",
    "GroupPromises",
    "GuardPromises",
    "HistoryPromises",
    "HoldPromises",
    "InspectionPromises",
    "LeasePromises",
    "LifecyclePromises",
    "LimitPromises",
    "ListingPromises",
    "OrderPromises",
    "OwingPromises",
    "PeoplePromises",
    "PrefetchPromises",
    "RatePromises",
    "RecoveryPromises",
    "RegressionPromises",
    "ReorderPromises",
    "RetentionPromises",
    "SamplingPromises",
    "SchedulePromises",
    "SettlementPromises",
    "SeveralQueuesPromises",
    "SharedRowPromises",
    "SqlPromises",
    "TokenPromises",
    "TransactionPromises",
    "UniquenessPromises",
    "UsagePromises",
    "WebhookPromises",
]
