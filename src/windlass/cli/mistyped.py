"""What the parser of the command line found wrong, in plain words: which option, and what it takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, get_args

from cyclopts import CycloptsError, MissingArgumentError
from cyclopts.exceptions import CoercionError, UnknownCommandError, UnusedCliTokensError

TAKES: Final[dict[object, str]] = {
    int: "a whole number, such as 20", float: "a number, such as 0.5", bool: "nothing, or one of true and false",
}  # fmt: skip


def plainly(error: CycloptsError, tokens: Sequence[str] = ()) -> str:
    match error:
        case MissingArgumentError() if error.argument is not None:
            return _missing(error) + _dashed(error.keyword, tokens)
        case CoercionError() if error.target_type in TAKES and error.token is not None:
            return f"{error.token.keyword or _name(error)}: takes {TAKES[error.target_type]}, got {error.token.value!r}"
        case UnusedCliTokensError() if error.unused_tokens:
            return f"{' '.join(error.unused_tokens)} is more than {_command(error)} takes"
        case UnknownCommandError() if error.unused_tokens and error.unused_tokens[0].startswith("-"):
            return f"{_command(error)} needs a command before {error.unused_tokens[0]}"
        case _:
            return str(error)


def _missing(error: MissingArgumentError) -> str:
    assert error.argument is not None, "only asked of an error that says which"
    name = error.keyword or _name(error)
    hint = error.argument.hint
    what = TAKES.get(next((one for one in (hint, *get_args(hint)) if one in TAKES), None), "a value")
    about = _about(error, error.argument.field_info.name)
    if name.startswith("-"):
        return f"{name}: takes {what}, and none was given" + (f" ({about})" if about else "")
    return f"{_command(error)} needs {name}" + (f": {about}" if about else "")


def _dashed(option: str | None, tokens: Sequence[str]) -> str:
    """What stands behind the option looks like another one."""
    told = next((value for name, value in pairwise(tokens) if name == option and re.match(r"-[^-]", value)), None)
    return "" if told is None else f"; one that begins with - is written {option}={shlex.quote(told)}"


def _command(error: CycloptsError) -> str:
    return " ".join(("windlass", *(error.command_chain or ())))


def _about(error: MissingArgumentError, parameter: str) -> str:
    """As --help says it."""
    if error.argument is not None and error.argument.parameter.help:
        return error.argument.parameter.help
    said = re.search(rf"^ +{re.escape(parameter)}: (.+)$", (error.target and error.target.__doc__) or "", re.MULTILINE)
    return "" if said is None else said[1]


def _name(error: CycloptsError) -> str:
    return "" if error.argument is None else error.argument.name
