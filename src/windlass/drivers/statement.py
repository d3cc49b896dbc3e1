"""A SQL statement is a value; an operation is a generator of them. Neither does IO.

SQL lives in `.sql` files, one per noun, in blocks named after what they do; every SQL driver has the same names. Loading
them drops comments, puts the pieces that several blocks share (`-- piece: name`) where they stand as `<name>`, also in a
later piece, and turns `:name` into the client's positional parameter. It does nothing else.

An operation yields statements and is sent their rows, so the same code serves the writer thread, a blocking client and
the caller's own transaction on whatever connection they hold:

    def cancel(job_id, now) -> Op[bool]:
        rows = yield SQL.cancel(job_id=job_id, now=now)
        return bool(rows)
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import cached_property
from importlib.resources import files
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

Row: TypeAlias = tuple[Any, ...]
T = TypeVar("T")


class Statement(Struct, frozen=True):
    """`params` is one row of parameters, or with `many` a sequence of rows."""

    sql: str
    params: Sequence[Any]
    many: bool = False
    counted: bool = False  # the answer is one row: how many were changed


BULK = 20

Op: TypeAlias = Generator[Statement, list[Row], T]

_BLOCK = re.compile(r"^-- (name|piece): (\w+)\n", re.MULTILINE)
_PIECE = re.compile(r"<([a-z_]+)>")
_NUMBERED = re.compile(r"\?(\d+)")
_COMMENT = re.compile(r"--.*")
_PARAMETER = re.compile(r"(?<![\w:']):([a-z_]+)")


def blocks_of(package: str) -> Iterator[tuple[str, str, str]]:
    """(file, name, text) of each block, whole and without comments."""
    pieces, found = dict[str, str](), list[tuple[str, str, str]]()
    for file in sorted(files(package).iterdir(), key=lambda f: f.name):
        parts = _BLOCK.split(file.read_text("utf-8")) if file.name.endswith(".sql") else []
        for kind, name, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            text = _COMMENT.sub("", body).strip().rstrip(";")
            if kind == "piece":
                pieces[name] = _PIECE.sub(lambda match: pieces[match[1]], text)
            else:
                found.append((file.name, name, text))
    for where, name, text in found:
        yield where, name, _PIECE.sub(lambda match: pieces[match[1]], text)


class Block:
    """A named statement of SQL. Called with its parameters it makes a `Statement`."""

    def __init__(self, name: str, text: str, mark: str = "?") -> None:
        self.name = name
        self.names: list[str] = []
        self._mark = mark
        self.sql = _PARAMETER.sub(self._number, text)
        self._takes = frozenset(self.names)

    def _number(self, match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in self.names:
            self.names.append(name)
        return f"{self._mark}{self.names.index(name) + 1}"

    def __call__(self, **params: Any) -> Statement:
        if params.keys() != self._takes:
            raise TypeError(f"block {self.name} takes {sorted(self.names)}, got {sorted(params)}")
        return Statement(self.sql, tuple(map(params.__getitem__, self.names)))

    def counted(self, **params: Any) -> Statement:
        """Answered with how many rows it has changed. Asking for that by a statement of its own makes a thread that works
        beside a busy one wait for it twice more."""
        return replace(self(**params), counted=True)

    def many(self, rows: Iterable[Row]) -> Statement:
        """One execution per row; a row gives the parameters in the order in which they first appear in the text."""
        return Statement(self.sql, list(rows), many=True)

    def bulk(self, rows: Sequence[Row]) -> Op[None]:
        """An insert of many rows: twenty to a statement, which is half as fast again as one, then the rest one by one."""
        whole = len(rows) - len(rows) % BULK
        if whole:
            groups = [tuple(chain.from_iterable(rows[n : n + BULK])) for n in range(0, whole, BULK)]
            yield Statement(self._bulk_sql, groups, many=True)
        if whole == len(rows) - 1:
            yield Statement(self.sql, rows[whole])
        elif whole < len(rows):
            yield self.many(rows[whole:])

    @cached_property
    def _bulk_sql(self) -> str:
        head, values = self.sql.rsplit("values", 1)
        width = len(self.names)
        shifted = (_NUMBERED.sub(lambda m, by=n * width: f"?{int(m[1]) + by}", values) for n in range(BULK))  # type: ignore[misc]
        return head + "values" + ",".join(shifted)


class Blocks:
    """All blocks of a driver, as attributes. `mark` stands before the number of a parameter."""

    def __init__(self, package: str, mark: str = "?") -> None:
        self._blocks: dict[str, Block] = {}
        for file, name, text in blocks_of(package):
            if name in self._blocks:
                raise ValueError(f"{file}: the block {name} exists twice")
            self._blocks[name] = Block(name, text, mark)

    def __getattr__(self, name: str) -> Block:
        try:
            return self._blocks[name]
        except KeyError:
            raise AttributeError(f"no SQL block is called {name}") from None

    def __iter__(self) -> Iterator[Block]:
        return iter(self._blocks.values())
