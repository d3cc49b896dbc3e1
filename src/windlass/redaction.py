"""What must not be shown: arguments that are secret, values under telling names, and the same inside of texts.

Three things hide a value. `Secret[str]` in a task's signature, and `redact=` of a task, hide it from everybody: the job
carries the names in a header, so that whoever shows it need not know the program. Telling names (`password`, `api_key`,
`Authorization` …) hide it from whoever may not see payloads. And a hidden value is looked for in errors, tracebacks and
logs, where a handler may have put it. What is stored in the payload stays as it is: a handler needs it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Generic, TypeVar, get_args
from urllib.parse import quote

import msgspec

from windlass.principal import LOOKS, PREFIX
from windlass.urls import HIDDEN

T_co = TypeVar("T_co", covariant=True)

MARK: Final = "windlass-redact"  # the header of a job that names what its task keeps secret
WHOLE_RESULT: Final = "$result"
SHORTEST: Final = 4  # a value of fewer characters is not looked for in texts: too much would look like it
DEEPEST: Final = 100
MANY: Final = 1_000  # values, and spellings of them, that are looked for; where a job has more, its texts are hidden whole

_ALONE: Final = frozenset(
    "password passwords passwd pwd passphrase passcode secret secrets token tokens authorization cookie cookies "
    "credential credentials apikey apikeys bearer dsn jwt otp cvv cvc pin ssn".split()
)
_PAIRS: Final = frozenset({
    (one, other) for one in ("api", "access", "private", "secret", "signing", "encryption", "auth", "master", "ssh")
    for other in ("key", "keys")
} | {("session", "id"), ("connection", "string"), ("database", "url"), ("card", "number"), ("set", "cookie")})  # fmt: skip
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_NAME: Final = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|credentials?|cookie|authorization"
    r"|[_-]token|token(?=[\"']|\s*=))"
)
# Each with words of which one is in every text that it fits: to look for those is a hundred times quicker. Where a text is
# not ASCII they prove nothing (`ſ` fits an `s` when case is ignored).
_PATTERNS: Final[tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...]] = (
    (("bearer", "basic"), re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), rf"\g<1> {HIDDEN}"),
    (("://",), re.compile(r"(://[^\s/@:'\"]{0,200}):[^\s@'\"]{1,500}@"), rf"\g<1>:{HIDDEN}@"),
    ((PREFIX.lower(),), LOOKS, HIDDEN),
    (("whsec_",), re.compile(r"\bwhsec_[A-Za-z0-9+/=]{16,}"), HIDDEN),
    (
        ("passw", "passphrase", "pwd", "secret", "key", "credential", "cookie", "authorization", "token"),
        re.compile(
            rf"({_NAME}[\"']?\s{{0,5}}[:=]\s{{0,5}})"
            r"(\"(?:[^\"\\]|\\.){0,20000}(?:\"|\\?\Z)|'(?:[^'\\]|\\.){0,20000}(?:'|\\?\Z)"  # or it was cut off
            r"|(?!(?:Bearer|Basic)\b)[^\s,;&)}\]\"']+)", re.IGNORECASE,
        ),
        rf"\g<1>{HIDDEN}",
    ),
)  # fmt: skip


class Secret(Generic[T_co]):
    """A value that is used and never shown: `password: Secret[str]` in a task's signature, `Secret("…")` at the call,
    `password.reveal()` where it is needed. It prints as `***`, also inside of other values."""

    __slots__ = ("_value",)

    def __init__(self, value: T_co) -> None:
        self._value = value

    def reveal(self) -> T_co:
        return self._value

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and bool(self._value == other._value)

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __copy__(self) -> Secret[T_co]:
        return self

    def __deepcopy__(self, memo: object) -> Secret[T_co]:
        return self

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not pickled; reveal it where it is needed")


def is_secret(kind: Any) -> bool:
    return kind is Secret or getattr(kind, "__origin__", None) is Secret


def unsealed(kind: Any, value: Any, hook: Callable[[Any, Any], Any]) -> Secret[Any]:
    """A stored value as the `Secret[...]` that a signature asks for."""
    [inner] = get_args(kind) or (Any,)
    try:
        return Secret(msgspec.convert(value, inner, dec_hook=hook))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None  # which is told with the path to it


def secret_names(kind: Any) -> tuple[str, ...]:
    """The names under which a type keeps secrets: its own fields, and those of what it holds. `$result` where it is one as
    a whole."""
    found: set[str] = set()
    _collect(msgspec.inspect.type_info(kind), WHOLE_RESULT, found, set())
    return tuple(sorted(found))


def _collect(info: Any, name: str, found: set[str], seen: set[int]) -> None:
    if id(info) in seen:
        return
    seen.add(id(info))
    if isinstance(info, msgspec.inspect.CustomType):
        if is_secret(info.cls):
            found.add(name)
    elif isinstance(info, msgspec.inspect.Field):
        _collect(info.type, info.encode_name, found, seen)
    elif isinstance(info, msgspec.inspect.Type):
        for part in msgspec.structs.astuple(info):
            _collect(part, name, found, seen)
    elif isinstance(info, tuple):
        for part in info:
            _collect(part, name, found, seen)


# ------------------------------------------------------------------------------------------------------------- values


def is_telling(name: str) -> bool:
    """Whether what has this name is better not shown: by its words, so that `apiKey` is one, and `secretary` is none."""
    words = [word.lower() for word in _WORDS.findall(name)]
    return not _ALONE.isdisjoint(words) or any(pair in _PAIRS for pair in pairwise(words))


def redact(value: Any, extra: Collection[str] = (), *, telling: bool = True) -> Any:
    """A copy of plain data without what must not be shown: whatever has one of the names in `extra`, and with `telling`
    whatever has a telling name, or is written into a text."""
    return _redacted(value, {name.casefold() for name in extra}, telling, 0)


def _redacted(value: Any, names: Collection[str], telling: bool, depth: int) -> Any:
    if depth > DEEPEST:
        return HIDDEN
    if isinstance(value, Mapping):
        return {
            key: _sealed(part) if _is_hidden(key, part, names, telling) else _redacted(part, names, telling, depth + 1)
            for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(part, names, telling, depth + 1) for part in value]
    return redact_text(value) if telling and isinstance(value, str) else value


def _is_hidden(key: object, value: Any, names: Collection[str], telling: bool) -> bool:
    if not isinstance(key, str):
        return False
    if key.casefold() in names:
        return True
    counted = isinstance(value, int | float) and key.casefold().endswith("tokens")  # max_tokens: 4096
    return telling and not counted and is_telling(key)


def _sealed(value: Any) -> Any:
    return value if value is None or value == "" else HIDDEN


def is_redacted(value: Any) -> bool:
    """Whether plain data comes from a view, where something was hidden: to store it would be to lose what was."""
    if isinstance(value, Mapping):
        return any(map(is_redacted, value.values()))
    if isinstance(value, list | tuple):
        return any(map(is_redacted, value))
    return isinstance(value, str) and (value == HIDDEN or f":{HIDDEN}@" in value)


def redact_text(text: str) -> str:
    """The same for words: passwords in URLs, `password=…`, bearer tokens and our own."""
    looked_for = text.lower() if text.isascii() else None
    for words, pattern, instead in _PATTERNS:
        if looked_for is None or any(word in looked_for for word in words):
            text = pattern.sub(instead, text)
    return text


# -------------------------------------------------------------------------------------------------------------- texts


def marks_of(headers: Mapping[str, str] | None) -> tuple[str, ...]:
    """What a job's task keeps secret, as the job tells it."""
    told = (headers or {}).get(MARK)
    return tuple(name for name in told.split(",") if name) if told else ()


class Scrubber:
    """Takes hidden values out of texts, in the spellings in which they get there, and then what looks like a secret."""

    def __init__(self, values: Iterable[str]) -> None:
        self._given = values

    @cached_property
    def _values(self) -> list[str]:
        """The longest first. Looked for when there is a text: most jobs never have one, and a payload may be large."""
        spelled = {form for value in self._given if len(value) >= SHORTEST for form in _spellings(value)}
        return sorted(spelled, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        return redact_text(self.known(text))

    def known(self, text: str) -> str:
        if len(self._values) > MANY:
            return HIDDEN if text else text
        for value in self._values:
            text = text.replace(value, HIDDEN)
        return text

    def data(self, value: Any, depth: int = 0) -> Any:
        """The same in every text of plain data."""
        if isinstance(value, str):
            return self.known(value)
        if isinstance(value, Mapping) and depth <= DEEPEST:
            return {key: self.data(part, depth + 1) for key, part in value.items()}
        return [self.data(part, depth + 1) for part in value] if isinstance(value, list) and depth <= DEEPEST else value

    def unfinished(self, raw: bytes) -> int:
        """How many bytes at the end may be the beginning of a hidden value: what follows will tell."""
        longest = 0
        for value in (value.encode() for value in self._values[:MANY]):
            longest = max(longest, _begun(value, raw))
        return longest

    def output(self, raw: bytes) -> bytes:
        """Of a program, which may be no text."""
        if len(self._values) > MANY:
            return HIDDEN.encode() + b"\n"
        for value in self._values:
            raw = raw.replace(value.encode(), HIDDEN.encode())
        return raw


def _begun(value: bytes, raw: bytes) -> int:
    """How much of the value's beginning, but not all of it, is at the end. Where that may be is found by the last bytes: to
    compare every beginning takes time by the square of its length, and the event loop waits."""
    most, last = min(len(value) - 1, len(raw)), raw[-8:]
    end = most
    while (at := value.rfind(last, 0, end)) >= 0:
        end = at + len(last)
        if raw.endswith(value[:end]):
            return end
        end -= 1
    return next((size for size in range(min(most, len(last) - 1), 0, -1) if raw.endswith(value[:size])), 0)


def scrubber_of(payload: bytes, headers: Mapping[str, str] | None, *, telling: bool = True) -> Scrubber:
    """For texts about a job with this payload. Without `telling` only what its task keeps secret is looked for."""
    return Scrubber(_HiddenIn(payload, headers, telling))


class _HiddenIn(Iterable[str]):
    """The values that a payload keeps secret, as often as somebody asks: threads share a scrubber."""

    def __init__(self, payload: bytes, headers: Mapping[str, str] | None, telling: bool) -> None:
        self._payload = payload
        self._telling = telling
        self._names = {name.casefold() for name in marks_of(headers)}

    def __iter__(self) -> Iterator[str]:
        try:
            data = msgspec.json.decode(self._payload)
        except (msgspec.DecodeError, RecursionError):
            return
        yield from _hidden_values(data, self._names, self._telling, False, 0)


def _hidden_values(value: Any, names: Collection[str], telling: bool, inside: bool, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        return
    if isinstance(value, Mapping):
        for key, part in value.items():
            hidden = inside or _is_hidden(key, part, names, telling)
            yield from _hidden_values(part, names, telling, hidden, depth + 1)
    elif isinstance(value, list):
        for part in value:
            yield from _hidden_values(part, names, telling, inside, depth + 1)
    elif inside and isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


def _spellings(value: str) -> Iterator[str]:
    yield value
    yield repr(value)[1:-1]
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="")
