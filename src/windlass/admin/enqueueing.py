"""Jobs by the names of their types, for edges that have no function in hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from windlass.admin.views import Queued
from windlass.client import Client
from windlass.core.uniqueness import stable_json
from windlass.errors import UnknownTask
from windlass.options import OF_JOB, JobOptions, check_options, plan
from windlass.presets import HARMONYK
from windlass.types import Micros, NewJob
from windlass.words import did_you_mean

if TYPE_CHECKING:
    from windlass.tasks import Task

Tasks = Mapping[str, "Task[..., Any]"] | None


class Wish(Struct, frozen=True):
    """A job that somebody wants."""

    type: str
    payload: Mapping[str, Any]
    options: JobOptions


async def enqueue(client: Client, tasks: Tasks, wishes: Sequence[Wish]) -> tuple[Queued, ...]:
    """All of them in one transaction, or none."""
    now = client.now()
    answers = await client.enqueue([_new(client, tasks, wish, now) for wish in wishes], now)
    return tuple(Queued(answer.id, answer.existed) for answer in answers)


def _new(client: Client, tasks: Tasks, wish: Wish, now: Micros) -> NewJob:
    options = client.bounded(wish.options)
    if tasks is not None:
        if wish.type not in tasks:
            raise UnknownTask(wish.type, did_you_mean(wish.type, tasks))
        return tasks[wish.type].using(**options).job(**wish.payload).new
    check_options(options, OF_JOB, "enqueue")
    text = stable_json(dict(wish.payload)).encode()
    return plan(wish.type, options, HARMONYK, client.settings).make(client.ids.job(now), text, now)
