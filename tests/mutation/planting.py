"""Plant a mutant in this very process: nothing is written, and nobody else notices.

A block of SQL gets another text. A function gets another code object, so that whoever imported it by name has the mutant
too.
"""

from __future__ import annotations

import ast
import functools
import importlib
from types import CodeType, FunctionType
from typing import Any

from mutation.code import functions
from mutation.mutant import PACKAGE, Mutant
from windlass.drivers.statement import Block


def plant(mutant: Mutant) -> None:
    if mutant.file.endswith(".sql"):
        plant_sql(mutant)
    else:
        plant_code(mutant)


def plant_sql(mutant: Mutant) -> None:
    package = importlib.import_module("windlass." + mutant.file.rpartition("/")[0].replace("/", "."))
    block: Block = getattr(package.SQL, mutant.place)
    mutated = Block(mutant.place, mutant.text, block._mark)
    assert mutated.names == block.names, f"{mutant.reach}: parameters moved"
    block.sql = mutated.sql
    vars(block).pop("_bulk_sql", None)


def plant_code(mutant: Mutant) -> None:
    module = importlib.import_module("windlass." + mutant.file.removesuffix(".py").replace("/", "."))
    function = function_at(module, mutant.place)
    function.__code__ = code_of(mutant, str(module.__file__))


def function_at(module: Any, place: str) -> FunctionType:
    found = module
    for name in place.split("."):
        found = vars(found)[name]
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, functools.cached_property):
        found = found.func
    elif isinstance(found, staticmethod | classmethod):
        found = found.__func__
    if hasattr(found, "cache_clear"):
        found.cache_clear()
    while hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    assert isinstance(found, FunctionType), f"{place} is a {type(found)}"
    return found if found.__code__.co_qualname == place else wrapped_in(found, place)


def wrapped_in(found: FunctionType, place: str) -> FunctionType:
    """What a decorator of ours has put away in a function of its own."""
    for cell in found.__closure__ or ():
        inner = cell.cell_contents
        if hasattr(inner, "cache_clear"):
            inner.cache_clear()
        inner = getattr(inner, "__wrapped__", inner)
        if isinstance(inner, FunctionType) and inner.__code__.co_qualname == place:
            return inner
    raise LookupError(f"{place} is out of reach")


def code_of(mutant: Mutant, file: str) -> CodeType:
    """Compiled where it stands in its module, so that names mean there what they mean."""
    tree = ast.parse((PACKAGE / mutant.file).read_text())
    [new] = ast.parse(mutant.text).body
    assert isinstance(new, ast.FunctionDef | ast.AsyncFunctionDef)
    place = dict(functions(tree))[mutant.place]
    place.body, place.decorator_list = new.body, []
    code = compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)
    return next(
        inner for inner in codes(code) if inner.co_qualname == mutant.place and inner.co_firstlineno == place.lineno
    )


def codes(code: CodeType) -> list[CodeType]:
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [*inner, *(deeper for one in inner for deeper in codes(one))]
