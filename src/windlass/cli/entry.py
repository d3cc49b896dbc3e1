"""From tokens to an exit code: find the command, run it, and turn whatever goes wrong into two helpful lines."""

from __future__ import annotations

import asyncio
import inspect
import os
import shlex
from collections.abc import Sequence
from typing import Final

from cyclopts import CycloptsError

from windlass.cli.commands import GROUPS, commands, prepare_help
from windlass.cli.mistyped import plainly
from windlass.cli.output import FAILED, OK, REFUSED, UNREACHABLE, USAGE, Output
from windlass.cli.session import NoStore
from windlass.copy_errors import CopyRefused, StoreMoved
from windlass.errors import (
    BrokenModule,
    DuplicateId,
    DuplicateJob,
    GroupRefused,
    HoldNotFound,
    InUse,
    InvalidInput,
    JobNotFound,
    Refused,
    ResourceBusy,
    StoreError,
    UnknownDelivery,
    UnknownSchedule,
    UnknownStore,
    UnknownTask,
    UnknownTemplate,
    UnknownToken,
    UnknownWebhook,
    WindlassError,
)
from windlass.urls import redacted

_FLAGS: Final = frozenset({"--json"})
_VALUES: Final = ("--store", "--words")
HELP: Final = (["--help"], ["-h"], ["help"])  # of the whole: the overview, which says where to go on


def run(tokens: Sequence[str]) -> int:
    tokens = common_last(tokens)
    out = Output(json="--json" in tokens)
    typed = ""
    try:
        app = commands()
        command, bound, _ = app.parse_args(tokens, print_error=False, exit_on_error=False, verbose=False)
        if command == app.help_print:
            prepare_help(app)
        typed = " ".join(app.parse_commands(tokens)[0])
        answer = command(*bound.args, **bound.kwargs)
        if inspect.iscoroutine(answer):
            answer = asyncio.run(answer)
        return answer if isinstance(answer, int) else OK
    except CycloptsError as error:
        typed = " ".join(error.command_chain or ())
        return out.fail(_said(error, tokens), f"windlass {typed} --help".replace("  ", " "), USAGE)
    except WindlassError as error:
        _debug()
        code, hint = _verdict(error, typed)
        return out.fail(str(error), hint, code)
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    except BrokenPipeError:
        raise  # main knows what that is
    except SystemExit as error:  # so says rich that nobody reads
        if isinstance(error.__context__, BrokenPipeError):
            return OK
        raise
    except Exception as error:
        _debug()
        return out.fail(f"{type(error).__name__}: {error}", "the same with WINDLASS_DEBUG=1, for the traceback", FAILED)


def common_last(tokens: Sequence[str]) -> list[str]:
    """`windlass --store X jobs list` and `windlass jobs --store X list` mean `windlass jobs list --store X`, and `windlass
    help jobs` means `windlass jobs --help`; no command at all, the overview."""
    rest, leading = _without_common(list(tokens))
    if rest[:1] == ["help"] and len(rest) > 1:
        rest = [*rest[1:], "--help"]
    if rest and rest[0] in GROUPS:
        command, more = _without_common(rest[1:])
        rest, leading = [rest[0], *command], [*leading, *more]
    if not rest or rest in HELP:
        return ["overview", *leading]
    place = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:place], *leading, *rest[place:]]


def _without_common(rest: list[str]) -> tuple[list[str], list[str]]:
    """What is left when the options of every command are taken from its beginning, and those."""
    leading = list[str]()
    while rest and rest[0].startswith("--"):
        if rest[0] in _FLAGS or rest[0].startswith(tuple(f"{name}=" for name in _VALUES)):
            leading.append(rest.pop(0))
        elif rest[0] in _VALUES and len(rest) > 1:
            leading += [rest.pop(0), rest.pop(0)]
        else:
            break
    return rest, leading


def _said(error: CycloptsError, tokens: Sequence[str]) -> str:
    """It quotes what was typed, which may be a URL with a password."""
    text = plainly(error, tokens)
    for token in tokens:
        value = token.partition("=")[2] if token.startswith("--") else token  # `--store=URL` is two words in one
        text = text.replace(value, redacted(value)) if value else text
    return " ".join(text.split())


def _verdict(error: WindlassError, typed: str) -> tuple[int, str | None]:
    match error:
        case NoStore():
            return UNREACHABLE, "--store URL or WINDLASS_URL=URL, or begin with: windlass init"
        case BrokenModule():
            return FAILED, "the same with WINDLASS_DEBUG=1, for the traceback"
        case InvalidInput() | UnknownTask() | UnknownStore():
            return USAGE, f"windlass {typed} --help"
        case Refused():
            return REFUSED, f"windlass jobs show {error.job_id}"
        case DuplicateId() | DuplicateJob():
            return REFUSED, f"windlass jobs show {error.job_id}"
        case InUse():
            return REFUSED, f"windlass {typed} --help"
        case UnknownSchedule() | UnknownTemplate():
            return FAILED, f"windlass {'schedules' if isinstance(error, UnknownSchedule) else 'templates'} list"
        case UnknownWebhook() | UnknownDelivery():
            return FAILED, "windlass webhooks list"
        case GroupRefused():
            return REFUSED, f"windlass groups show {error.group_id}"
        case JobNotFound():
            return FAILED, "windlass jobs list"
        case UnknownToken():
            return FAILED, "windlass tokens list"
        case HoldNotFound():
            return FAILED, "windlass holds list --all"
        case ResourceBusy():
            return REFUSED, "windlass holds list"
        case CopyRefused():
            return REFUSED, "windlass copy SRC DST --dry-run"
        case StoreMoved():
            return UNREACHABLE, _there(error.moved_to, typed)
        case StoreError():
            return UNREACHABLE, "windlass doctor" if typed != "doctor" else None
        case _:
            return FAILED, None


def _there(moved_to: str, typed: str) -> str | None:
    """The same on the store that this one has become, where it is known: one that is served does not tell."""
    url, _, schema = moved_to.partition(" (schema ")
    if not url:
        return None
    return f"{f'WINDLASS_SCHEMA={schema[:-1]} ' if schema else ''}windlass {typed} --store {shlex.quote(url)}"


def _debug() -> None:
    if os.environ.get("WINDLASS_DEBUG"):
        import traceback

        traceback.print_exc()
