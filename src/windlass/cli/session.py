"""What every command shares: where the store is, how to answer, and an `Admin` that is open for as long as it runs."""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Group, Parameter

from windlass import urls
from windlass.cli.output import EXIT_CODES, Output
from windlass.config import DEFAULT_URL, settings_from
from windlass.errors import StoreUnavailable
from windlass.urls import redacted
from windlass.words import System

if TYPE_CHECKING:
    from windlass.admin import Admin
    from windlass.app import Windlass
    from windlass.drivers.sqlite.looking import Look

PARENT_STORE: Final = "WINDLASS_PARENT_STORE"
EVERYWHERE = Group("Everywhere", sort_key=99)
Flag = Annotated[bool, Parameter(negative=(), show_default=False)]


@Parameter(name="*", group=EVERYWHERE)
@dataclass(frozen=True)
class Common:
    """Options of every command, also before its name."""

    store: Annotated[str | None, Parameter(help="URL of the store; else $WINDLASS_URL, else sqlite:///windlass.db")] = (
        field(default=None, repr=False)
    )
    json: Annotated[Flag, Parameter(help="answer with one JSON object")] = False
    words: Annotated[System | None, Parameter(help="show and accept states in this system's words")] = None

    @cached_property
    def out(self) -> Output:
        return Output(json=self.json)

    @property
    def url(self) -> str:
        return self.store or os.environ.get("WINDLASS_URL") or DEFAULT_URL

    def again(self, command: str, url: str | None = None) -> str:
        """A command to type next, on the same store; `url`: that of a program, which may have its own."""
        used = self.store or url or self.url
        told = f" --store {shlex.quote(redacted(used))}" if self.store or used != Common().url else ""
        return f"windlass {command}{told}"


def passed_on(common: Common) -> dict[str, str]:
    """What --store said, in the environment of a process that is the same command again: the URL may hold a password, and
    everybody can read a process's arguments."""
    return {} if common.store is None else {PARENT_STORE: common.store}


def with_what_was_passed_on(common: Common) -> Common:
    """In that process. It is taken out of the environment: what a handler starts has no use for it."""
    store = os.environ.pop(PARENT_STORE, None)
    return common if store is None or common.store is not None else replace(common, store=store)


@Parameter(name="*")
@dataclass(frozen=True)
class Which:
    """Which jobs, by their columns."""

    queue: Annotated[str | None, Parameter(help="only of this queue")] = None
    type: Annotated[str | None, Parameter(help="only of this type")] = None
    org: Annotated[str | None, Parameter(help="only of this organisation")] = None


@Parameter(name="*")
@dataclass(frozen=True)
class Paging:
    limit: Annotated[int, Parameter(help="at most so many")] = 50
    cursor: Annotated[str | None, Parameter(help="go on where the page before ended")] = None


class NoStore(StoreUnavailable):
    """A command that only looks must not leave an empty file behind."""


def file_of(url: str) -> str | None:
    """The absolute path of the file behind a URL, where there is one."""
    path = urls.file_of(url)
    return None if path is None else os.path.abspath(path)


def described(url: str) -> str:
    return file_of(url) or redacted(url)


def check_there(url: str) -> None:
    path = file_of(url)
    if path is None:
        return
    if not os.path.exists(path):
        raise NoStore(f"there is no store at {path}")
    found = stranger_at(url)
    if found is not None:
        raise NoStore(f"{path} is no store of Windlass: {found.says}; it was left as it is")


def stranger_at(url: str) -> Look | None:
    """A file that is there and is no store, and what it is instead."""
    path = file_of(url)
    if path is None:
        return None
    from windlass.drivers.sqlite.looking import stranger

    return stranger(path, settings_from({}).sqlite)


@asynccontextmanager
async def opened(common: Common, *, create: bool = False) -> AsyncIterator[Admin]:
    """The store that the options name. Only with `create` may it be made."""
    if not create:
        check_there(common.url)
    from windlass.admin import Admin  # the overview and every --help do without
    from windlass.client import Client

    settings = settings_from({})
    client = Client(common.url, settings if create else replace(settings, migrate="never"))
    try:
        yield Admin(client).acting_as(me())
    finally:
        await client.close()


@asynccontextmanager
async def opened_app(target: str, common: Common) -> AsyncIterator[Windlass]:
    """The program's own store, unless the options name another."""
    from windlass.loading import absolute, load_app  # with it comes the worker, which looking at jobs does not need

    app = load_app(target)
    app.target = absolute(target)
    if common.store is not None:
        app.client.url = common.store
    try:
        yield app
    finally:
        await app.close()


def me() -> str:
    """As the audit log names whoever types commands."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):  # a container without a name for this user
        return f"cli:{os.getuid()}"


def epilogue(*examples: str) -> str:
    shown = "\n".join(f"  {example}" for example in examples)
    return f"{'Example' if len(examples) == 1 else 'Examples'}:\n{shown}\n\n{EXIT_CODES}"
