"""Mutants of SQL: every guard dropped, every comparison turned, every change that rides along in a `with` left out.

A guard is a member of an `and` or `or`, or all that stands behind `where`, `on`, `having`, `when`. It is not cut out but
made true (or, in an `or`, false), so that parameters stay where they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mutation.mutant import Mutant
from windlass.drivers.statement import blocks_of

TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<text>'(?:[^']|'')*')|(?P<name>\"[^\"]*\")|(?P<parameter>(?<![\w:']):[a-z_]+)"
    r"|(?P<compare>is\s+(?:not\s+)?distinct\s+from\b|is\s+(?:not\s+)?null\b|not\s+in\b|not\s+exists\b)"
    r"|(?P<word>[a-z_][\w.]*)|(?P<number>\d+)"
    r"|(?P<operator>->>|->|<>|<=|>=|!=|\|\||::|@>|<@|\?\||\?&|.)",
    re.DOTALL,
)
HINT = re.compile(r"\bindexed by \w+")

TURNED = {
    "<": ("<=",), "<=": ("<",), ">": (">=",), ">=": (">",), "=": ("<>",), "<>": ("=",), "!=": ("=",), "in": ("not in",),
    "exists": ("not exists",), "is null": ("is not null",), "is not null": ("is null",), "not in": ("in",),
    "not exists": ("exists",), "is distinct from": ("is not distinct from",), "is not distinct from": ("is distinct from",),
}  # fmt: skip
OF_ALL = {("=", "any"): "<> all", ("<>", "all"): "= any"}
CONDITIONS = {"where", "on", "having", "when"}
BOUNDS = CONDITIONS | {
    "select", "from", "set", "returning", "group", "order", "by", "limit", "union", "all", "then", "else", "as", "join",
    "left", "cross", "inner", "lateral", "values", "offset", "for", "with", "insert", "into", "update", "delete", "using",
    "do", "conflict", "nothing", ",", ";", "materialized", "over", "distinct", "recursive", "filter",
}  # fmt: skip
CONSTANT = {"true", "false", "1", "0"}
CHANGES = {"update", "insert", "delete"}


@dataclass
class Token:
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        return " ".join(self.text.lower().split())


@dataclass
class Level:
    """What stands between two brackets (or a `case` and its `end`): tokens, and levels inside."""

    parts: list[Token | Level] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def levels(self) -> Iterator[Level]:
        yield self
        for part in self.parts:
            if isinstance(part, Level):
                yield from part.levels()


Part = Token | Level
Edit = tuple[int, int, str, str]  # from, to, what stands there then, and how that is told


def parsed(sql: str) -> Level:
    stack = [Level(end=len(sql))]
    for match in TOKEN.finditer(sql):
        if match.lastgroup == "space":
            continue
        token = Token(match.group(), match.start(), match.end())
        if token.word in ("(", "case", "["):
            inner = Level(start=token.end)
            stack[-1].parts += [token, inner]
            stack.append(inner)
        elif token.word in (")", "end", "]"):
            stack.pop().end = token.start
            stack[-1].parts.append(token)
        else:
            stack[-1].parts.append(token)
    assert len(stack) == 1, f"brackets do not match: {sql}"
    return stack[0]


def word(part: Part | None) -> str:
    return part.word if isinstance(part, Token) else ""


def segments(level: Level) -> Iterator[tuple[str, list[Part]]]:
    """What stands between two bounding words, with the word before it. Of an assignment: what is assigned."""
    before, found, assigning = "", list[Part](), False
    for part in [*level.parts, None]:
        if part is not None and word(part) not in BOUNDS:
            found.append(part)
            continue
        if assigning and before in ("set", ",") and any(word(p) == "=" for p in found):
            found = found[[word(p) for p in found].index("=") + 1 :]
        if found:
            yield before, found
        before, found = word(part), []
        assigning = before == "set" or (assigning and before == ",")


def split(parts: Sequence[Part], at: str) -> list[list[Part]]:
    """By a connective; the `and` of a `between` is none."""
    pieces, between = [list[Part]()], False
    for part in parts:
        if word(part) == at and not (at == "and" and between):
            pieces.append([])
            continue
        if word(part) in ("between", "and"):
            between = word(part) == "between"
        pieces[-1].append(part)
    return [piece for piece in pieces if piece]


def span(parts: Sequence[Part]) -> tuple[int, int]:
    return parts[0].start, parts[-1].end


def guards(parts: Sequence[Part], sql: str, made: str) -> Iterator[Edit]:
    """Each member, and members of members, made true in an `and` and false in an `or`."""
    for connective, constant in (("or", "false"), ("and", "true")):
        members = split(parts, connective)
        if len(members) > 1:
            for member in members:
                yield from guards(member, sql, constant)
            return
    start, end = span(parts)
    text = sql[start:end]
    if text.lower() in CONSTANT:
        return
    bare = [part for part in parts if word(part) != "not"]
    if (
        len(bare) == 3
        and word(bare[0]) == "("
        and isinstance(bare[1], Level)
        and word(bare[1].parts[0]) not in ("select", "with")
    ):
        yield from guards(bare[1].parts, sql, made)
    joined = "or" if made == "true" else "and"
    yield start, end, f"({text} {joined} {made})", f"{short(text)} → {made}"
    if not any(has_comparison(part) for part in parts):
        yield start, end, f"(not ({text}))", f"{short(text)} → not"


def has_comparison(part: Part) -> bool:
    """Then to turn that one is enough."""
    return any(map(has_comparison, part.parts)) if isinstance(part, Level) else part.word in TURNED


def short(text: str) -> str:
    return " ".join(text.split())


def edits(sql: str) -> Iterator[Edit]:
    root = parsed(sql)
    for level in root.levels():
        first_assigned = {id(token) for token in assignments(level)}
        for before, parts in segments(level):
            boolean = any(word(part) in ("and", "or") for part in parts)
            if (before in CONDITIONS or boolean) and word(parts[0]) != "between":
                yield from guards(parts, sql, "true")
        for index, part in enumerate(level.parts):
            if isinstance(part, Token) and part.word in TURNED and id(part) not in first_assigned:
                near = sql[max(0, part.start - 30) : part.end + 24]
                if part.word == "exists" and word(level.parts[index - 1] if index else None) == "if":
                    continue
                after = level.parts[index + 1] if index + 1 < len(level.parts) else None
                if isinstance(after, Token) and (part.word, after.word) in OF_ALL:  # `<> any` of two is as good as true
                    turned = OF_ALL[part.word, after.word]
                    yield part.start, after.end, turned, f"{part.word} {after.word} → {turned} at …{short(near)}…"
                    continue
                for turned in TURNED[part.word]:
                    yield part.start, part.end, turned, f"{part.word} → {turned} at …{short(near)}…"
        if level is not root and word(level.parts[0] if level.parts else None) in CHANGES:
            yield from left_out(level, sql)


def assignments(level: Level) -> Iterator[Token]:
    """The equals signs that compare nothing."""
    assigning = fresh = False
    for part in level.parts:
        if word(part) in BOUNDS:
            assigning = word(part) == "set" or (assigning and word(part) == ",")
            fresh = assigning
        elif fresh and isinstance(part, Token) and part.word == "=":
            fresh = False
            yield part


def left_out(level: Level, sql: str) -> Iterator[Edit]:
    """A change inside a `with`, done to no row."""
    told = f"left out: {short(sql[level.start : level.end])[:60]}…"
    for before, parts in segments(level):
        if before == "where":
            start, end = span(parts)
            if sql[start:end].lower() not in CONSTANT:
                yield start, end, f"(({sql[start:end]}) and false)", told
            return
    if any(word(part) == "values" for part in level.parts):
        return
    ends = [part.start for part in level.parts if word(part) in ("group", "order", "limit", "returning", "on")]
    at = min(ends, default=level.end)
    yield at, at, " where false ", told


def blocks_in(file: str) -> Iterator[tuple[str, str]]:
    """Of a file below the package, by name."""
    folder, _, wanted = file.rpartition("/")
    for where, name, text in blocks_of(f"windlass.{folder.replace('/', '.')}"):
        if where == wanted:
            yield name, text


def mutants_of(file: str) -> Iterator[Mutant]:
    """Of a file below the package. A hint at an index goes too: it would refuse the statement before any test could."""
    for name, sql in blocks_in(file):
        seen: dict[str, int] = {}
        for start, end, new, what in edits(sql):
            text = HINT.sub("", sql[:start] + new + sql[end:])
            seen[what] = seen.get(what, -1) + 1
            yield Mutant(file, name, what, text, seen[what])
