"""Mutants of Python: every comparison turned, every condition negated, every member of an `and` or `or` left out, every
statement skipped that stands for itself, every rider left at home."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from mutation.mutant import PACKAGE, Mutant

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Bug = tuple[str, Callable[[], None]]


def functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """With their names as the interpreter knows them; what is inside of one belongs to it."""

    def within(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Function]]:
        for node in body:
            if isinstance(node, Function):
                yield prefix + node.name, node
            elif isinstance(node, ast.ClassDef):
                yield from within(node.body, f"{prefix}{node.name}.")

    yield from within(tree.body, "")


def without_docstrings(tree: ast.Module) -> ast.Module:
    """The same code. What was found out about a mutant stays true when somebody puts a docstring better."""
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return tree


def told(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:90]


def negated(test: ast.expr) -> ast.expr:
    return test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else ast.UnaryOp(ast.Not(), test)


def is_one_flip(test: ast.expr) -> bool:
    """To turn its comparison is to negate it."""
    return isinstance(test, ast.Compare) and len(test.ops) == 1 and not isinstance(test.ops[0], ORDERED)


def bugs(function: Function, *, only_skips: bool) -> Iterator[Bug]:
    """What can be done to this very tree, in an order that is the same for every copy of it."""
    for node in ast.walk(function):
        yield from skips(node)
        if not only_skips:
            yield from turns(node)


def skips(node: ast.AST) -> Iterator[Bug]:
    for name in ("body", "orelse", "finalbody"):
        body = getattr(node, name, None)
        if not isinstance(body, list):
            continue
        for index, statement in enumerate(body):
            idle = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)  # an ellipsis
            if isinstance(statement, ast.Expr | ast.AugAssign) and not idle:
                yield f"skipped: {told(statement)}", lambda b=body, i=index: b.__setitem__(i, ast.Pass())  # type: ignore[misc]
    if isinstance(node, ast.keyword) and node.arg == "riders":
        yield f"no riders: {told(node.value)}", lambda: setattr(node, "value", ast.Tuple([], ast.Load()))


def turns(node: ast.AST) -> Iterator[Bug]:
    if isinstance(node, ast.Compare):
        for index, op in enumerate(node.ops):
            new = FLIPPED[type(op)]
            what = f"{new.__name__} for {type(op).__name__}: {told(node)}"
            yield what, lambda i=index, n=new: node.ops.__setitem__(i, n())  # type: ignore[misc]
    if isinstance(node, ast.If | ast.While | ast.IfExp | ast.match_case):
        name = "guard" if isinstance(node, ast.match_case) else "test"
        test = getattr(node, name)
        if test is not None and not is_one_flip(test):
            yield f"negated: {told(test)}", lambda: setattr(node, name, negated(test))
    if isinstance(node, ast.comprehension):
        for index, condition in enumerate(node.ifs):
            if not is_one_flip(condition):
                yield f"negated: {told(condition)}", lambda i=index, c=condition: node.ifs.__setitem__(i, negated(c))  # type: ignore[misc]
    if isinstance(node, ast.BoolOp):
        for index, member in enumerate(node.values):
            yield f"left out: {told(member)} of {told(node)}", lambda i=index: leave_out(node, i)  # type: ignore[misc]
    if isinstance(node, ast.Return) and isinstance(node.value, ast.UnaryOp) and isinstance(node.value.op, ast.Not):
        value = node.value
        yield f"negated: {told(value)}", lambda: setattr(node, "value", value.operand)


def leave_out(node: ast.BoolOp, index: int) -> None:
    """By the value that decides nothing, so that the tree keeps its shape."""
    node.values[index] = ast.Constant(isinstance(node.op, ast.And))


def mutants_of(file: str, *, only_skips: bool = False) -> Iterator[Mutant]:
    """Of a file below the package."""
    for place, function in functions(without_docstrings(ast.parse((PACKAGE / file).read_text()))):
        seen: dict[str, int] = {}
        whats = [what for what, _ in bugs(function, only_skips=only_skips)]
        for index, what in enumerate(whats):
            mutated: Any = copy.deepcopy(function)
            next(islice(bugs(mutated, only_skips=only_skips), index, None))[1]()
            seen[what] = seen.get(what, -1) + 1
            yield Mutant(file, place, what, ast.unparse(ast.fix_missing_locations(mutated)), seen[what])
