"""`windlass copy`: move a live store to another, watch it, go on with it, give it up."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from windlass.cli.output import OK, REFUSED
from windlass.cli.session import Common, Flag, check_there, file_of, stranger_at
from windlass.clock import SECOND, duration
from windlass.copy_errors import CopyRefused
from windlass.errors import InvalidInput, StoreError
from windlass.wording import are, plural

if TYPE_CHECKING:
    from windlass.config import Migrate
    from windlass.copying import Copy, Plan, Report, Show
    from windlass.drivers.copying import End


SLOWEST: Final = 120 * SECOND  # of one step: to count the rows of a large table is the longest


def copy(
    src: str, dst: str, /, *, wait: str = "5m", abandon: Flag = False, dry_run: Flag = False, back: Flag = False,
    src_schema: str | None = None, dst_schema: str | None = None, common: Common = Common(),
) -> int:  # fmt: skip
    """Move everything that a store holds to an empty one, while producers and workers run: jobs with their history and
    order, keys, groups, schedules, limits, holds, tokens, webhooks, usage, the audit log.

    Claims on SRC stop, and running jobs are waited for. Then SRC refuses every write and says where it has moved; all is
    copied and compared row by row, and DST opens. Whatever kills it, the same command goes on where it was. Until DST
    opens, --back makes SRC what it was. SRC is kept as it is; delete it when you no longer want it.

    Args:
        src: URL of the store that is live
        dst: URL of the store that is to be; it must be empty, and is made where it is not there
        wait: how long running jobs are waited for; if some still run then, nothing is copied and claims go on
        abandon: do not give up then: those jobs move as they are, what their handlers do afterwards is not stored, and they
            are recovered on DST when their leases lapse
        dry_run: say what would be done, and change nothing
        back: give the copy up: SRC takes claims and writes again, DST is emptied
        src_schema: PostgreSQL schema of SRC; else the setting's
        dst_schema: PostgreSQL schema of DST; else the setting's
    """
    from windlass.copying import Copy

    patience = duration(wait, field="wait")
    if back and dry_run:
        raise InvalidInput("back", "give --back or --dry-run, not both")
    with ExitStack() as opened:
        source = _opened(opened, src, src_schema, "never")
        _check_target(dst)
        if dry_run and not _is_there(dst, dst_schema):
            return _plan_for_nothing(source, dst, common)
        target = _reached(opened, dst, dst_schema) if back else _opened(opened, dst, dst_schema, "empty")
        show = opened.enter_context(_display(common))
        copying = Copy(source, target or source, show, wait=patience, abandon=abandon)
        if back:
            return _given_up(copying.give_up(reachable=target is not None), source, target is not None, common)
        if dry_run:
            return _planned(copying.plan(), common)
        report = _run(copying, source, common)
    return _told(report, common)


def _run(copying: Copy, source: End, common: Common) -> Report:
    try:
        return copying.run()
    except (KeyboardInterrupt, StoreError):
        with suppress(StoreError):
            if source.source_mark() is not None:
                common.out.note("it is not done: the same command goes on with it, with --back it is given up")
            else:
                common.out.note("nothing was copied: the source takes claims and writes as before")
        raise


def _opened(opened: ExitStack, url: str, schema: str | None, migrate: Migrate) -> End:
    from windlass.drivers.copying import open_end

    if migrate == "never":
        check_there(url)
    end = open_end(url, **_options(url, schema, migrate))
    opened.callback(end.close)
    return end


def _reached(opened: ExitStack, url: str, schema: str | None) -> End | None:
    """A target that is gone must not keep anybody from going back."""
    try:
        return _opened(opened, url, schema, "never")
    except StoreError:
        return None


def _options(url: str, schema: str | None, migrate: Migrate) -> dict[str, Any]:
    from windlass.client import Client
    from windlass.config import check_schema, settings_from

    settings = settings_from({})
    settings = replace(settings, migrate=migrate, store_timeout=max(settings.store_timeout, SLOWEST))
    if schema is not None:
        check_schema(schema)
        settings = replace(settings, schema=schema)
    return Client(url, settings).options()


def _check_target(url: str) -> None:
    """A name that was mistaken must not put a store into the database of another program."""
    found = stranger_at(url)
    if found is not None and found.tables:
        raise CopyRefused(f"{file_of(url)}: {found.says}; name a file that is not there yet")


def _is_there(url: str, schema: str | None) -> bool:
    from windlass.drivers import migrations_of

    path = file_of(url)
    if path is not None:
        return os.path.exists(path) and stranger_at(url) is None
    steps = migrations_of(url, **_options(url, schema, "never")).steps
    return not steps or any(applied for _, applied in steps)


# ---------------------------------------------------------------------------------------------------------------- answers


def _plan_for_nothing(source: End, dst: str, common: Common) -> int:
    from windlass.cli.session import described
    from windlass.copying import Plan

    plan = Plan(
        source=source.where, target=f"{described(dst)} (will be made)", step="begin", may=source.source_mark() is None,
        rows=source.counts(), running=source.leased()[0],
    )  # fmt: skip
    return _planned(plan, common)


def _planned(plan: Plan, common: Common) -> int:
    if common.json:
        common.out.emit(plan)
    else:
        common.out.line(f"from {plan.source}")
        common.out.line(f"to   {plan.target}")
        common.out.table(
            ("table", "rows"), [(name, f"{rows:,}") for name, rows in plan.rows.items() if rows] or [("none", "")]
        )
        common.out.line(f"{are(plan.running, 'job')} running now")
        word = {"begin": "can begin", "done": "is done already"}.get(plan.step, "was begun, and can be gone on with")
        common.out.line(f"the copy {word}" if plan.may else f"refused: {plan.step}")
    return OK if plan.may else REFUSED


def _told(report: Report, common: Common) -> int:
    if common.json:
        common.out.emit(report)
        return OK
    if report.moved_before:
        common.out.line(f"{report.source} has moved to {report.target} already")
        return OK
    rows = [(one.table, f"{one.rows:,}", one.digest[:16], ("same", "green")) for one in report.tables if one.rows]
    if rows:
        common.out.table(("table", "rows", "digest", "both sides"), rows)
    common.out.line(f"{len(report.tables) - len(rows)} of {len(report.tables)} tables hold nothing, on both sides")
    common.out.line(f"{plural(report.rows, 'row')} moved to {report.target}, which is open")
    if report.abandoned:
        common.out.line(f"{plural(report.abandoned, 'job')} still ran, recovered there when the leases lapse")
    url, _, schema = report.target.partition(" (schema ")
    named = f"WINDLASS_URL={shlex.quote(url)}" + (f" WINDLASS_SCHEMA={schema[:-1]}" if schema else "")
    common.out.note(f"next: start producers and workers with {named} (and its password, if it has one)")
    return OK


def _given_up(done: bool, source: End, reached: bool, common: Common) -> int:
    if not done:
        raise CopyRefused("there is nothing to give up: no copy from this store is under way")
    if common.json:
        common.out.emit(source=source.where, given_up=True, target_emptied=reached)
    else:
        common.out.line(f"given up: {source.where} takes claims and writes again")
        if not reached:
            common.out.note("the target could not be reached; it stays closed until a copy to it begins anew")
    return OK


# --------------------------------------------------------------------------------------------------------------- progress


class Lines:
    """For a pipe or a log, on stderr."""

    def __init__(self, common: Common) -> None:
        self._say = common.out.note

    def phase(self, what: str, total: int = 0) -> None:
        self._say(f"  {what}: {total:,}" if total else f"  {what}")

    def done(self, rows: int) -> None:
        pass


class Bar:
    """For a terminal."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._bar = progress.add_task("", total=None)

    def phase(self, what: str, total: int = 0) -> None:
        self._progress.reset(self._bar, total=total or None, description=what)

    def done(self, rows: int) -> None:
        self._progress.advance(self._bar, rows)


@contextmanager
def _display(common: Common) -> Iterator[Show]:
    if common.json or not sys.stderr.isatty():
        yield Lines(common)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(30), MofNCompleteColumn(), TextColumn("{task.description:30}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bar(progress)
