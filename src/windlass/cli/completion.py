"""Completion for bash, zsh and fish. The scripts only ask `windlass __complete`, which knows the commands as they are,
and the names of queues, jobs and tasks as they are now. It is quick, it is quiet, and it never fails."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, get_args

from windlass.types import LABELS, STATES
from windlass.words import SYSTEMS, vocabulary

Shell = Literal["bash", "zsh", "fish"]

SCRIPTS: Final[dict[Shell, str]] = {
    "bash": r"""_windlass() {
    local IFS=$'\n'
    COMPREPLY=($(windlass __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
}
complete -o default -F _windlass windlass
""",
    "zsh": r"""#compdef windlass
_windlass() {
    local -a found
    found=("${(@f)$(windlass __complete "${(@)words[2,CURRENT]}" 2>/dev/null | cut -f1)}")
    if [[ -n "$found" ]]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _windlass windlass
""",
    "fish": r"""function __windlass_complete
    set -l typed (commandline -opc) (commandline -ct)
    windlass __complete $typed[2..-1] 2>/dev/null
end
complete -c windlass -a '(__windlass_complete)'
""",
}


def completion(shell: Shell, /) -> None:
    """Print the completion script of a shell."""
    sys.stdout.write(SCRIPTS[shell])


def complete(words: Sequence[str]) -> int:
    """Print what may follow; the last word is the one being typed. One candidate a line, with words of help after a tab."""
    with suppress(BaseException):
        from windlass.cli.commands import commands

        *before, typed = words or [""]
        for name, about in _candidates(commands(), before, typed):
            if name.startswith(typed):
                sys.stdout.write(f"{name}\t{about}\n" if about else f"{name}\n")
        sys.stdout.flush()
    return 0


def _candidates(app: Any, before: list[str], typed: str) -> Iterator[tuple[str, str]]:
    chain, apps, rest = app.parse_commands([word for word in before if word not in ("--json",)])
    here = apps[-1]
    options = {name: argument for argument in _arguments(here) for name in argument.names if name.startswith("--")}
    if before and before[-1] in options and options[before[-1]].hint is not bool:
        yield from _values(before[-1].lstrip("-"), before)
    elif typed.startswith("-"):
        for name, argument in options.items():
            yield name, argument.parameter.help or ""
        yield "--help", "explain this command"
    else:
        for name in here:
            if not name.startswith("-") and here[name].show:
                yield name, here[name].help.split("\n", 1)[0]
        if chain:
            yield from _positional(here, rest, options, before)


def _arguments(app: Any) -> list[Any]:
    return list(app.assemble_argument_collection()) if app.default_command is not None else []


def _positional(app: Any, rest: Sequence[str], options: dict[str, Any], before: list[str]) -> Iterator[tuple[str, str]]:
    """Values for the place that is typed: options and their values do not count."""
    given, skip = 0, False
    for word in rest:
        if skip or word.startswith("--"):
            skip = not skip and word in options and options[word].hint is not bool
        else:
            given += 1
    places = [a for a in _arguments(app) if a.index is not None]
    repeats = [a for a in places[-1:] if a.field_info.kind is a.field_info.VAR_POSITIONAL]
    for argument in [a for a in places if a.index == given] or repeats:
        yield from _values(argument.field_info.name, before)


def _values(name: str, before: list[str]) -> Iterator[tuple[str, str]]:
    known: dict[str, Callable[[], Sequence[tuple[str, str]]]] = {
        "words": lambda: [(system, "") for system in SYSTEMS],
        "state": lambda: [(word, "") for word in _states(before)],
        "to": lambda: [("top", ""), ("bottom", "")],
        "shell": lambda: [(shell, "") for shell in get_args(Shell)],
        "queue": lambda: _asked(before, _queues),
        "queues": lambda: _asked(before, _queues),
        "job_id": lambda: _asked(before, _job_ids),
        "job_ids": lambda: _asked(before, _job_ids),
        "task": lambda: _tasks(before),
        "schedule": lambda: _asked(before, _schedules),
        "template": lambda: _asked(before, _templates),
        "type": lambda: _asked(before, _types),
    }
    if name in known:
        yield from known[name]()


def _states(before: list[str]) -> Sequence[str]:
    system = _option(before, "--words")
    return vocabulary(system) if system in SYSTEMS else list(dict.fromkeys((*STATES, *LABELS)))


def _option(before: list[str], name: str) -> Any:
    return before[before.index(name) + 1] if name in before[:-1] else None


def _tasks(before: list[str]) -> Sequence[tuple[str, str]]:
    target = _option(before, "--app")
    if target is None:
        return _asked(before, _types)
    from windlass.loading import load_app

    return [(task.name, f"queue {task.queue}") for task in load_app(target).tasks.values()]


def _asked(before: list[str], ask: Callable[[Any], Awaitable[list[tuple[str, str]]]]) -> list[tuple[str, str]]:
    from windlass.cli.session import Common, opened

    async def look() -> list[tuple[str, str]]:
        async with opened(Common(store=_option(before, "--store"))) as admin:
            return await ask(admin)

    return asyncio.run(asyncio.wait_for(look(), 1.0))


async def _queues(admin: Any) -> list[tuple[str, str]]:
    return [(queue.name, "paused" if queue.paused_at else "") for queue in (await admin.overview()).queues]


async def _job_ids(admin: Any) -> list[tuple[str, str]]:
    return [(job.id, f"{job.type} {job.label}") for job in (await admin.jobs(limit=50)).jobs]


async def _types(admin: Any) -> list[tuple[str, str]]:
    return [(name, "") for name in await admin.types()]


async def _schedules(admin: Any) -> list[tuple[str, str]]:
    return [(row.name, row.cron_expression) for row in await admin.schedules.list()]


async def _templates(admin: Any) -> list[tuple[str, str]]:
    return [(row.name, row.type) for row in await admin.templates.list()]
