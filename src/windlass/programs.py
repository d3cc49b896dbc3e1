"""A program that a job runs: its command line, environment and files, with fields that a job's arguments fill.

There is no shell. Every element of the command line becomes exactly one argument of the program, whatever a field holds:
`"{path}"` is the field alone, `"--file={path}"` has it inside. A brace itself is written `{{` or `}}`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword
from string import Formatter
from typing import Annotated, Any, Final

from msgspec import Meta

from windlass.errors import InvalidInput, shown

Field = Annotated[str, Meta(pattern=r"^[^\x00]*$")] | int | float  # no operating system passes on a NUL


@dataclass(frozen=True)
class Program:
    """A command as it was declared. Fields can be used in the command line, in values of the environment, in `cwd` and in
    `artifacts`, whose paths may be patterns such as `out/*.csv`, relative to `cwd`."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: str | None
    artifacts: tuple[str, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        texts = (*self.command, *self.environment.values(), self.cwd or "", *self.artifacts)
        return tuple(dict.fromkeys(field for text in texts for field in _fields_of(text)))

    def signature(self) -> Callable[..., None]:
        """A function that takes the fields by name, so that enqueueing checks them as it does for every task."""

        def command(**fields: Field) -> None:
            raise InvalidInput(self.name, "is a command; enqueue it, a worker runs it")

        named = [inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, annotation=Field) for field in self.fields]
        vars(command)["__signature__"] = inspect.Signature(named, return_annotation=None)
        command.__name__ = command.__qualname__ = self.name
        command.__doc__ = f"Run {self.command[0]}."
        return command

    def filled(self, values: Mapping[str, Any]) -> Program:
        """The command with a job's arguments in the places of its fields."""
        texts = {name: str(value) for name, value in values.items()}
        return Program(
            self.name, tuple(part.format(**texts) for part in self.command),
            {name: value.format(**texts) for name, value in self.environment.items()},
            None if self.cwd is None else self.cwd.format(**texts),
            tuple(path.format(**texts) for path in self.artifacts),
        )  # fmt: skip


def program(
    name: str, command: Sequence[str], env: Mapping[str, str] | None, cwd: str | None, artifacts: Sequence[str]
) -> Program:
    """Checked: what is wrong with a command is said when it is declared."""
    if not _is_list(command) or not command:
        raise InvalidInput("command", f"must be a list such as ['pg_dump', '--file', '{{path}}'], got {shown(command)}")
    if not _is_list(artifacts):
        raise InvalidInput("artifacts", f"must be a list of paths or patterns, got {shown(artifacts)}")
    if env is not None and not isinstance(env, Mapping):
        raise InvalidInput("env", f"must be a dict of text, got {shown(env)}")
    environment = dict(env or {})
    for field, text in (
        *(("command", part) for part in command), *(("artifacts", path) for path in artifacts),
        *(("env", part) for pair in environment.items() for part in pair), ("cwd", "" if cwd is None else cwd),
    ):  # fmt: skip
        _check(field, text)
    if not command[0] or _fields_of(command[0]):
        raise InvalidInput("command", "begins with the program, which no job may choose: put its name there")
    for key in environment:
        if not key or "=" in key or _fields_of(key):
            raise InvalidInput("env", f"{key!r} cannot be the name of a variable")
    return Program(name, tuple(command), environment, cwd, tuple(artifacts))


_KINDS: Final = "write {name} alone, or {{ and }} for braces"


def _check(field: str, text: object) -> None:
    if not isinstance(text, str) or "\x00" in text:
        raise InvalidInput(field, f"holds {text!r}, which is not text that a program could be given")
    try:
        parts = [part for part in Formatter().parse(text) if part[1] is not None]
    except ValueError as error:
        raise InvalidInput(field, f"{text!r}: {error}; {_KINDS}") from None
    for _, name, spec, conversion in parts:
        if not name or not name.isidentifier() or iskeyword(name) or spec or conversion:
            raise InvalidInput(field, f"{text!r} has a field that is not a plain name; {_KINDS}")


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _fields_of(text: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(text) if name]
