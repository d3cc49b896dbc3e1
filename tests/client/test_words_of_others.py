"""Whoever comes from another queue and types its words is told ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from windlass import Context, Windlass
from windlass.crons import CronOptions
from windlass.errors import InvalidInput
from windlass.foreign import APP, CONTEXT, JOB, OPTIONS, TASK
from windlass.handles import JobHandle
from windlass.options import OF_COMMAND, OF_JOB, OF_TASK
from windlass.tasks import Task


def add(a: int, b: int = 0) -> int:
    return a + b


@pytest.fixture
def app() -> Windlass:
    return Windlass("memory://")


@pytest.mark.parametrize("word", ["retries", "max_retries", "countdown", "eta", "rate_limit", "bind", "time_limit"])
def test_an_option_of_another_queue_is_translated(app: Windlass, word: str) -> None:
    task: Any = app.task(add)
    calls: list[Callable[..., Any]] = [app.task, task.using, lambda **given: task.enqueue_sync(1, **given)]
    for call in calls:
        with pytest.raises(InvalidInput, match=rf"^{word}: ") as refused:
            call(**{word: 1})(add)
        assert f"here write {OPTIONS[word]}" in str(refused.value)


@pytest.mark.parametrize(
    ("word", "call", "told"),
    [
        ("delay", lambda app: app.task(delay="5m")(add), "task.using(delay=...)"),
        ("name", lambda app: app.task(add).using(name="x"), "@app.task(name=...)"),
        ("delay", lambda app: app.task(add).enqueue_sync(1, delay=5), "task.using(delay=...)"),
        ("priority", lambda app: app.task(add).job(1, priority=5), "task.using(priority=...)"),
        ("timezone", lambda app: app.cron("* * * * *", timezone="UTC")(add), 'tz="Europe/Berlin"'),
    ],
)
def test_an_option_in_the_wrong_place_is_told_the_right_one(
    app: Windlass, word: str, call: Callable[[Any], Any], told: str
) -> None:
    with pytest.raises(InvalidInput, match=rf"^{word}: ") as refused:
        call(app)
    assert told in str(refused.value)


def test_an_argument_that_is_wrong_is_not_taken_for_an_option(app: Windlass) -> None:
    @app.task
    def paint(priority: int) -> None: ...

    with pytest.raises(InvalidInput) as refused:
        paint.enqueue_sync(priority="high")  # type: ignore[arg-type]
    assert "using" not in str(refused.value)


def test_a_method_of_another_queue_is_translated(app: Windlass) -> None:
    task: Any = app.task(add)
    asked: list[tuple[Any, str, Mapping[str, str]]] = [
        (task, "delay", TASK), (task, "apply_async", TASK), (task.using(queue="x"), "perform_async", TASK),
        (app, "send_task", APP), (task.enqueue_sync(1), "get", JOB), (Context(None), "retry", CONTEXT),  # type: ignore[arg-type]
    ]  # fmt: skip
    for one, word, words in asked:
        assert not hasattr(one, word)
        with pytest.raises(AttributeError) as refused:
            getattr(one, word)
        assert str(refused.value).endswith(f"has no attribute {word!r}; here write {words[word]}")
    with pytest.raises(AttributeError, match=r"has no attribute 'enqueu'$"):
        task.enqueu(1)


@pytest.mark.parametrize(("kind", "words"), [(Task, TASK), (JobHandle, JOB), (Context, CONTEXT), (Windlass, APP)])
def test_no_word_of_ours_is_taken_for_one_of_others(app: Windlass, kind: type, words: Mapping[str, str]) -> None:
    task: Any = app.task(add)
    own = {Task: task, JobHandle: task.enqueue_sync(1), Windlass: app}.get(kind)
    assert [word for word in words if hasattr(kind, word) or (own is not None and hasattr(own, word))] == []
    assert not OPTIONS.keys() & (OF_JOB | OF_TASK | OF_COMMAND | CronOptions.__annotations__.keys())
