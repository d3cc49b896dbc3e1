"""Deliveries: every interleaving of two who make them, of two who send them, and of who changes a webhook meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from postgres.programs import NOW, alter, check, claimed, enqueue, new, wanted
from postgres.stepping import Stage, transaction
from windlass.clock import SECOND
from windlass.core.alterations import (
    Cancel,
    ChangeWebhook,
    DeleteWebhook,
    EndDelivery,
    PingWebhook,
    PutWebhook,
    ReplayDelivery,
    RotateSecret,
    TakeDelivery,
)
from windlass.core.changes import Answer
from windlass.core.duties import Done, FanOut, ForgetEvents
from windlass.core.events import CANCELLED, DEAD, EVENTS, GROUP_FINISHED, announced
from windlass.core.settle import Execution, Rejected
from windlass.core.settle import settle as decide
from windlass.drivers.ops import deliveries
from windlass.drivers.ops.events import webhooks
from windlass.drivers.postgres import settlement
from windlass.drivers.postgres.dialect import DIALECT
from windlass.drivers.postgres.sql import SQL
from windlass.drivers.statement import Op, Row
from windlass.records import Try
from windlass.types import Claimed, NewGroup

UNTIL = NOW + 60 * SECOND
SECRETS = ["whsec_" + letter * 32 for letter in "AB"]


def hook(name: str = "h", **fields: Any) -> PutWebhook:
    return PutWebhook(**{"webhook_id": name, "url": "https://x.org", "events": EVENTS, "secret": SECRETS[0], **fields})


def fan_out(limit: int = 100) -> Op[Done]:
    return (yield from transaction(deliveries.fan_out(DIALECT, FanOut(limit=limit), NOW)))


def forget() -> Op[Done]:
    return (yield from transaction(deliveries.forget_events(DIALECT, ForgetEvents(keep=0), NOW)))


def resumed(work: Op[Done], answer: list[Row]) -> Op[Done]:
    """What waits for an answer, with this one."""
    try:
        asked = work.send(answer)
        while True:
            asked = work.send((yield asked))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


def rejected(jobs: list[Claimed]) -> Op[list[Answer]]:
    def work() -> Op[list[Answer]]:
        hooks = yield from webhooks(SQL)
        units = [announced(hooks, job, decide(job, Rejected("no"), Execution(at=NOW))) for job in jobs]
        return (yield from settlement.settle(units, NOW))

    return (yield from transaction(work()))


def happened(stage: Stage, events: int = 1) -> list[int]:
    """So many jobs died; the numbers of their events."""
    enqueue(stage, *(new() for _ in range(events)))
    stage.do(rejected_now(claimed(stage)))
    return [row[0] for row in stage.ask("select event_id from windlass.outbox order by event_id")]


def rejected_now(jobs: list[Claimed]) -> Op[list[Answer]]:
    hooks = yield from webhooks(SQL)
    return (
        yield from settlement.settle(
            [announced(hooks, job, decide(job, Rejected("no"), Execution(at=NOW))) for job in jobs], NOW
        )
    )


def take(event_id: int, name: str = "h", until: int = UNTIL) -> TakeDelivery:
    return TakeDelivery(event_id=event_id, webhook_id=name, expected=NOW, until=until)


def end(event_id: int, name: str = "h", **fields: Any) -> EndDelivery:
    told = {"expected": UNTIL, "status": "sent", "attempt": Try(NOW, 1, 200, None)}
    return EndDelivery(event_id=event_id, webhook_id=name, **{**told, **fields})


def rows(stage: Stage) -> list[tuple[Any, ...]]:
    return list(stage.ask("select event_id, webhook_id, status, attempts, taken from windlass.deliveries order by 1, 2"))


def on(stage: Stage) -> list[bool]:
    return [row[0] for row in stage.ask("select enabled from windlass.webhooks order by webhook_id")]


def test_two_who_make_deliveries_make_each_once(stage: Stage) -> None:
    alter(stage, hook("a"), hook("b"))
    events = happened(stage, 2)
    for outcome in stage.every(lambda: {"one": fan_out(), "two": fan_out()}):
        assert sorted([outcome["one"].rows, outcome["two"].rows]) == [0, 4], outcome
        assert [(row[0], row[1]) for row in rows(stage)] == [(e, name) for e in events for name in ("a", "b")], outcome
        check(stage, outcome)


def test_two_who_take_a_delivery_and_one_sends_it(stage: Stage) -> None:
    alter(stage, hook())
    [event] = happened(stage)
    stage.do(deliveries.fan_out(DIALECT, FanOut(), NOW))
    for outcome in stage.every(lambda: {"one": wanted(take(event)), "two": wanted(take(event, until=UNTIL + 1))}):
        assert sorted([outcome["one"], outcome["two"]]) == [["applied"], ["wrong_state"]], outcome
        assert rows(stage) == [(event, "h", "queued", 0, True)], outcome
        check(stage, outcome)


def test_two_who_take_several_in_another_order_get_each_once(stage: Stage) -> None:
    alter(stage, hook("a"), hook("b"))
    first, second = happened(stage, 2)
    stage.do(deliveries.fan_out(DIALECT, FanOut(), NOW))
    one = [take(first, "a"), take(second, "b")]
    for outcome in stage.some(lambda: {"one": wanted(*one), "two": wanted(*reversed(one))}, rounds=25, seed=1):
        both = list(zip(outcome["one"], reversed(outcome["two"]), strict=True))
        assert all(sorted(pair) == ["applied", "wrong_state"] for pair in both), outcome
        check(stage, outcome)


def test_who_came_too_late_does_not_end_what_another_took(stage: Stage) -> None:
    """The first taker's time was over, a second one takes it: whoever writes last, one attempt is counted."""
    alter(stage, hook())
    [event] = happened(stage)
    stage.do(deliveries.fan_out(DIALECT, FanOut(), NOW))
    alter(stage, take(event))
    again = TakeDelivery(event_id=event, webhook_id="h", expected=UNTIL, until=UNTIL + 9)
    for outcome in stage.every(lambda: {"one": wanted(end(event)), "two": wanted(again)}):
        ended = outcome["one"] == ["applied"]
        assert outcome["two"] == (["wrong_state"] if ended else ["applied"]), outcome
        assert rows(stage) == [(event, "h", "sent" if ended else "queued", int(ended), not ended)], outcome
        check(stage, outcome)


def test_a_replay_waits_for_who_ends_it(stage: Stage) -> None:
    alter(stage, hook())
    [event] = happened(stage)
    stage.do(deliveries.fan_out(DIALECT, FanOut(), NOW))
    alter(stage, take(event))
    again = ReplayDelivery(event_id=event, webhook_id="h")
    for outcome in stage.every(lambda: {"one": wanted(end(event)), "two": wanted(again)}):
        assert outcome["one"] == ["applied"], outcome
        replayed = outcome["two"] == ["applied"]
        assert replayed or outcome["two"] == ["busy"], outcome
        assert rows(stage) == [(event, "h", "queued" if replayed else "sent", 0 if replayed else 1, False)], outcome
        check(stage, outcome)


def test_a_receiver_that_is_gone_is_switched_off_once(stage: Stage) -> None:
    """Two who hear of it at once; and somebody who changes its secret meanwhile does not undo it."""
    alter(stage, hook())
    first, second = happened(stage, 2)
    stage.do(deliveries.fan_out(DIALECT, FanOut(), NOW))
    alter(stage, take(first), take(second))
    gone = {"status": "failed", "disable": "gone"}
    for outcome in stage.every(lambda: {"one": wanted(end(first, **gone)), "two": wanted(end(second, **gone))}):
        assert (outcome["one"], outcome["two"]) == (["applied"], ["applied"]), outcome
        assert on(stage) == [False], outcome
        assert len(stage.ask("select from windlass.audit")) == 1, outcome
        check(stage, outcome)


@pytest.mark.parametrize("change", [RotateSecret(webhook_id="h", secret=SECRETS[1], keep_until=UNTIL),
                                    ChangeWebhook(webhook_id="h", url="https://y.org")])  # fmt: skip
def test_a_change_does_not_switch_it_on_again(stage: Stage, change: Any) -> None:
    alter(stage, hook())
    [event] = happened(stage)
    stage.do(deliveries.fan_out(DIALECT, FanOut(), NOW))
    alter(stage, take(event))
    gone = end(event, status="failed", disable="gone")
    for outcome in stage.every(lambda: {"one": wanted(gone), "two": wanted(change)}):
        assert (outcome["one"], outcome["two"]) == (["applied"], ["applied"]), outcome
        assert on(stage) == [False], outcome
        [(url, secret)] = stage.ask("select url, secret from windlass.webhooks")
        assert (url, secret) == (
            (change.url, SECRETS[0]) if isinstance(change, ChangeWebhook) else ("https://x.org", SECRETS[1])
        )
        check(stage, outcome)


def test_a_webhook_that_is_deleted_leaves_nothing_behind(stage: Stage) -> None:
    """Whoever makes deliveries at the same time makes them before it goes, or not at all."""
    alter(stage, hook("gone"), hook("stays"))
    [event] = happened(stage)
    for outcome in stage.every(lambda: {"one": fan_out(), "two": wanted(DeleteWebhook("gone"))}):
        assert outcome["two"] == ["applied"], outcome
        assert rows(stage) == [(event, "stays", "queued", 0, False)], outcome
        check(stage, outcome)


def test_a_ping_of_one_that_is_deleted_is_sent_before_or_never(stage: Stage) -> None:
    alter(stage, hook())
    for outcome in stage.every(lambda: {"one": wanted(PingWebhook("h")), "two": wanted(DeleteWebhook("h"))}):
        assert outcome["two"] == ["applied"], outcome
        assert outcome["one"] in (["applied"], ["not_found"]), outcome
        assert rows(stage) == [], outcome
        check(stage, outcome)


def test_what_is_forgotten_is_not_in_the_way_of_who_sends(stage: Stage) -> None:
    alter(stage, hook())
    old, kept = happened(stage, 2)
    stage.do(deliveries.fan_out(DIALECT, FanOut(), NOW))
    alter(stage, take(old), take(kept))
    alter(stage, end(old))
    for outcome in stage.every(lambda: {"one": forget(), "two": wanted(end(kept))}):
        assert outcome["two"] == ["applied"], outcome
        left = [row[0] for row in rows(stage)]
        assert old not in left, outcome
        assert [row[0] for row in stage.ask("select event_id from windlass.outbox order by 1")] == left, outcome
        check(stage, outcome)


def test_a_delivery_that_is_asked_for_again_is_not_forgotten_in_that_moment(stage: Stage) -> None:
    """Or it is gone, and who asks is told so."""
    alter(stage, hook())
    [event] = happened(stage)
    stage.do(deliveries.fan_out(DIALECT, FanOut(), NOW))
    alter(stage, take(event))
    alter(stage, end(event))
    again = ReplayDelivery(event_id=event, webhook_id="h")
    for outcome in stage.every(lambda: {"one": wanted(again), "two": forget()}):
        replayed = outcome["one"] == ["applied"]
        assert replayed or outcome["one"] == ["not_found"], outcome
        assert outcome["two"] == Done(0 if replayed else 1), outcome
        assert rows(stage) == ([(event, "h", "queued", 0, False)] if replayed else []), outcome
        check(stage, outcome)


def test_what_was_asked_for_again_before_its_event_was_held_is_not_forgotten(stage: Stage) -> None:
    """The look at what may go saw it sent; by the time its event is held, that was long ago."""
    alter(stage, hook())
    [event] = happened(stage)
    stage.do(deliveries.fan_out(DIALECT, FanOut(), NOW))
    duty = deliveries.forget_events(DIALECT, ForgetEvents(keep=0), NOW)
    assert next(duty).sql == SQL.forgettable(before=NOW, limit=1).sql
    assert stage.do(resumed(duty, [(event,)])) == Done(0)
    assert rows(stage) == [(event, "h", "queued", 0, False)]


def test_the_end_of_a_group_is_told_once_by_the_last_two(stage: Stage) -> None:
    """Two members end at the same instant, on two workers: one of them is the last."""
    alter(stage, hook(events=(GROUP_FINISHED,)))
    group = NewGroup(group_id="g", name="g", on_failure="continue")
    enqueue(stage, *(new(group_id="g", opens=group, group_seq=n) for n in range(2)))
    one, two = claimed(stage)
    for outcome in stage.every(lambda: {"one": rejected([one]), "two": rejected([two])}):
        assert (outcome["one"], outcome["two"]) == (["applied"], ["applied"]), outcome
        assert len(stage.ask("select from windlass.outbox")) == 1, outcome
        check(stage, outcome)


def test_a_death_that_meets_a_cancellation_is_told_as_what_it_became(stage: Stage) -> None:
    alter(stage, hook(events=(DEAD, CANCELLED)))
    [job_id] = enqueue(stage, new())
    [job] = claimed(stage)
    for outcome in stage.every(lambda: {"one": rejected([job]), "two": wanted(Cancel(job_id))}):
        assert outcome["one"] == ["applied"], outcome
        assert [row[0] for row in stage.ask("select event from windlass.outbox")] == [DEAD], outcome
        check(stage, outcome)
