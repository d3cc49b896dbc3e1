"""Every order of two programs: after each step it is chosen anew who goes on, and all choices are tried."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from interleaving.stores import OnMemory, OnSqlite, Steps, Store
from windlass.drivers.sqlite.library import BUSY, Connection, execute
from windlass.drivers.sqlite.store import migrate, open_connection
from windlass.drivers.statement import Statement
from windlass.errors import WindlassError

Program = Callable[[Store, Any], Steps[Any]]
MOST = 2_000


@dataclass
class Ended:
    """What one order came to."""

    answers: dict[str, Any]
    state: Any
    story: list[str]
    waited: bool = False

    def __str__(self) -> str:
        return "\n".join(self.story)


@dataclass
class Side:
    """A program under way. `execute` does one step and answers what the program is sent; None: it has to wait."""

    name: str
    program: Steps[Any]
    execute: Callable[[Any], list[Any] | None]
    step: Any = None
    answer: Any = None
    done: bool = False
    waits: bool = False

    def begin(self) -> None:
        self._advance(lambda: next(self.program))

    def go(self) -> bool:
        """Whether the step was made."""
        rows = self.execute(self.step)
        if rows is None:
            self.waits = True
            return False
        self._advance(lambda: self.program.send(rows))
        return True

    def _advance(self, move: Callable[[], Any]) -> None:
        try:
            self.step = move()
        except StopIteration as stop:
            self.answer, self.done = stop.value, True
        except WindlassError as error:
            self.answer, self.done = type(error).__name__, True


@dataclass
class Walk:
    """The choices so far: where several could go on, which of them did."""

    taken: list[int] = field(default_factory=list)
    options: list[int] = field(default_factory=list)

    def choose(self, at: int, options: int) -> int:
        if at == len(self.taken):
            self.taken.append(0)
            self.options.append(options)
        return self.taken[at]

    def on(self) -> bool:
        """To the next order; False when there is none."""
        while self.taken and self.taken[-1] == self.options[-1] - 1:
            self.taken.pop()
            self.options.pop()
        if self.taken:
            self.taken[-1] += 1
        return bool(self.taken)


def played(sides: list[Side], walk: Walk) -> tuple[list[str], bool]:
    story, waited, depth = list[str](), False, 0
    for side in sides:
        side.begin()
    while not all(side.done for side in sides):
        ready = [side for side in sides if not side.done and not side.waits]
        assert ready, f"everybody waits:\n{story}"
        side = ready[walk.choose(depth, len(ready))]
        depth += 1
        told = side.step.sql if isinstance(side.step, Statement) else str(side.step)
        went = side.go()
        story.append(f"{side.name}: {' '.join(told.split())[:100]}" + ("" if went else " … waits"))
        waited = waited or not went
        if went and told in ("commit", "rollback"):
            for other in sides:
                other.waits = False
    return story, waited


# ------------------------------------------------------------------------------------------------------------- by stores


def run_through(steps: Steps[Any], execute: Callable[[Any], Any]) -> Any:
    """A program alone."""
    rows: Any = None
    try:
        while True:
            rows = execute(steps.send(rows))
    except StopIteration as stop:
        return stop.value


def in_memory(given: Callable[[Store], Steps[Any]], programs: Mapping[str, Program], state: Any) -> list[Ended]:
    """What may come out: each order of whole calls, by the store that is the specification."""
    ends, walk = list[Ended](), Walk()
    while True:
        store = OnMemory()
        facts = run_through(given(store), lambda _: None)
        sides = [Side(name, program(store, facts), lambda _: []) for name, program in programs.items()]
        story, _ = played(sides, walk)
        answers = {side.name: side.answer for side in sides}
        ends.append(Ended(answers, run_through(state(store), lambda _: None), story))
        store.close()
        if not walk.on():
            return ends


def calls_before_a_death(given: Callable[[Store], Steps[Any]], programs: Mapping[str, Program], state: Any) -> list[Ended]:
    """What memory says when the first of two has done none of its calls, one, and so on, and then the other comes."""
    first, second = programs.items()
    ends, done = list[Ended](), False
    while not done:
        store = OnMemory()
        facts = run_through(given(store), lambda _: None)
        dying = Side(first[0], first[1](store, facts), lambda _: [])
        dying.begin()
        for _ in ends:
            dying.go()
        done = dying.done
        answer = run_through(second[1](store, facts), lambda _: None)
        ends.append(Ended({second[0]: answer}, run_through(state(store), lambda _: None), []))
        store.close()
    return ends


class SqliteStage:
    """A file with rows; each order begins with a copy of it and connections of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = OnSqlite()

    def open(self, path: Path) -> Connection:
        return open_connection("apsw", str(path), busy_s=0, durable=False)

    def every(self, template: Path, facts: Any, programs: Mapping[str, Program], state: Any) -> Iterator[Ended]:
        walk = Walk()
        for _ in range(MOST):
            yield self.one(template, facts, programs, state, walk)
            if not walk.on():
                return
        raise AssertionError(f"more than {MOST} orders: make the programs shorter")

    def one(self, template: Path, facts: Any, programs: Mapping[str, Program], state: Any, walk: Walk) -> Ended:
        path = self.directory / "order.db"
        shutil.copyfile(template, path)
        connections = {name: self.open(path) for name in programs}
        try:
            sides = [
                Side(name, program(self.store, facts), lambda step, c=connections[name]: executed(c, step))  # type: ignore[misc]
                for name, program in programs.items()
            ]
            story, waited = played(sides, walk)
            one = next(iter(connections.values()))
            rows = run_through(state(self.store), lambda step: executed(one, step))
            return Ended({side.name: side.answer for side in sides}, rows, story, waited)
        finally:
            self._away(connections.values(), path)

    def deaths(self, template: Path, facts: Any, programs: Mapping[str, Program], state: Any) -> Iterator[Ended]:
        """The first of two dies before each of its steps in turn, then the other does all of its own."""
        for step in count():
            end = self._death(template, facts, programs, state, step)
            if end is None:
                return
            yield end

    def _death(self, template: Path, facts: Any, programs: Mapping[str, Program], state: Any, steps: int) -> Ended | None:
        """None: it has done all that it was about to do."""
        (name, first), (other_name, second) = programs.items()
        path = self.directory / "death.db"
        shutil.copyfile(template, path)
        doomed, other = self.open(path), self.open(path)
        try:
            dying, story = Side(name, first(self.store, facts), lambda step: executed(doomed, step)), list[str]()
            dying.begin()
            while not dying.done and len(story) < steps:
                story.append(f"{name}: {' '.join(dying.step.sql.split())[:100]}")
                assert dying.go()
            if dying.done:
                return None
            doomed.close()
            answer = run_through(second(self.store, facts), lambda step: executed(other, step))
            rows = run_through(state(self.store), lambda step: executed(other, step))
            return Ended({other_name: answer}, rows, [*story, f"{name} dies"])
        finally:
            self._away([doomed, other], path)

    def prepared(self, given: Callable[[Store], Steps[Any]], empty: Path, template: Path) -> Any:
        """The rows that every order begins with, in a file of their own."""
        shutil.copyfile(empty, template)
        connection = self.open(template)
        facts = run_through(given(self.store), lambda step: executed(connection, step))
        connection.execute("pragma wal_checkpoint(truncate)")
        connection.close()
        return facts

    def _away(self, connections: Iterable[Connection], path: Path) -> None:
        for connection in connections:
            connection.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)


def made_empty(path: Path) -> Path:
    connection = open_connection("apsw", str(path), busy_s=0, durable=False)
    migrate(connection, str(path), 5)
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
    return path


def executed(connection: Connection, step: Statement) -> list[Any] | None:
    """None: somebody else writes."""
    try:
        return execute(connection, step)
    except BUSY:
        if connection.in_transaction():  # who has begun is not refused any more
            raise
        return None


__all__ = ["Ended", "SqliteStage", "calls_before_a_death", "in_memory", "made_empty", "run_through"]
