"""Write docs/reference/errors.md from the errors themselves, so that the page cannot leave one out.

python tools/errors_reference.py            write the page
python tools/errors_reference.py --check    fail when the page is not what would be written

What happened is said by the class; what to do is said here, because whoever reads the page has the message already.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Final

from generated import ROOT, write_or_check

from windlass import errors
from windlass.cli.output import EXIT_CODES
from windlass.errors import WindlassError
from windlass.web.problems import trouble_of

PAGE: Final = ROOT / "docs" / "reference" / "errors.md"
PACKAGE: Final = ROOT / "src" / "windlass"
ERRORS: Final = re.compile(r"^class \w+\((?:WindlassError|StoreError)\b", re.M)
OTHERS: Final = sorted(one.stem for one in PACKAGE.glob("*.py") if one.stem != "errors" and ERRORS.search(one.read_text()))
MODULES: Final = [errors, *(import_module(f"windlass.{name}") for name in OTHERS)]  # in this order on the page
DO: Final = {
    "WindlassError": "Catch it to catch everything of ours.",
    "InvalidInput": "Correct the field that it names.",
    "Undecodable": "Let the task accept what is stored (a default for a new argument), or cancel the job and enqueue it anew.",
    "InvalidLeaseDuration": "Give a lease that is longer than zero.",
    "DuplicateId": "Let Windlass make ids; to enqueue at most once use `idempotency_key`.",
    "DuplicateJob": "Nothing, if one such job is enough: `job_id` is the one that is there.",
    "WrongConnection": "Give a connection of the store's own database; [which there are](../guides/transactions.md).",
    "LeaseError": "Stop: somebody else has the job. The worker does that by itself.",
    "JobNotInflight": "Nothing: it ended, was cancelled or went back.",
    "LeaseExpired": "Nothing for one job. If there are many: an event loop is blocked or the store is slow; see [a worker is lost](../operations/lost-worker.md).",
    "LeaseMismatch": "Nothing: another worker has it now, and this one's result is refused.",
    "NeverTwice": "Settle it through `windlass.core.settle`; only drivers and tests meet this.",
    "JobNotFound": "Look for it with `windlass jobs list`; finished jobs are removed after `keep_succeeded`.",
    "JobDead": "`windlass jobs show ID -v`, mend the cause, `windlass jobs retry ID`; see [dead letters](../operations/dead-letters.md).",
    "JobCancelled": "Nothing, or enqueue it anew.",
    "Refused": "`windlass jobs show ID` says which state it is in.",
    "ResourceBusy": "Wait longer, or `windlass holds list` and ask who holds it.",
    "HoldLost": "Do not trust that you were alone. Renew sooner, or hold for longer.",
    "HoldNotFound": "`windlass holds list`; it has ended.",
    "GroupNotFound": "`windlass groups list`.",
    "GroupRefused": "`windlass groups show ID` says what it is at.",
    "LeaseLost": "Nothing: the transaction was rolled back and another worker has the job. Let it propagate.",
    "TransactionTooLong": "Do slow work before `ctx.transaction()`, or lengthen `lease`.",
    "ProcessDied": "`windlass jobs show ID`: the exit code or signal. 9 is often the memory: see [isolation](../guides/isolation.md).",
    "ChildUnstartable": "Import the module by hand: `python -c 'import tasks'`; what fails there fails in the child.",
    "NoSuchResource": "Declare the resource; [how](../guides/resources.md).",
    "ResourceUnavailable": "Mend what it opens; the worker can be started again at once, nothing was claimed.",
    "NoCurrentJob": "Call it inside of a handler, or take `ctx` as an argument.",
    "WouldHang": "Write what the message says; to wait for something else in a handler, wait for that job.",
    "AppClosed": "`app.open()` again, or close it later.",
    "UnknownTask": "Import the module that declares it, or correct the name; the message has a suggestion.",
    "BrokenModule": "Import it by hand: `python -c 'import tasks'` shows the same error with its traceback.",
    "UnknownTemplate": "`windlass templates list`.",
    "OutOfScope": "Use a token that may: `windlass tokens create` with its `--org`, `--queue` or none.",
    "UnknownToken": "`windlass tokens list`.",
    "UnknownSchedule": "`windlass schedules list`.",
    "UnknownWebhook": "`windlass webhooks list`.",
    "UnknownDelivery": "`windlass webhooks deliveries ID`; after `keep_events` they are gone.",
    "InUse": "Take another name, or first remove what needs it.",
    "DriverClosed": "Open a new app or driver.",
    "DriverForked": "Open the app after the fork, once in each process.",
    "StoreError": "See the one that it is.",
    "StoreBusy": "Try again. If it stays: who writes for so long? See [A process that is stopped](../start/workers.md#one-machine).",
    "StoreFull": "Free space: [the disk is full](../operations/disk-full.md).",
    "StoreUnavailable": "Look at path or address, and at rights; `windlass doctor --store URL` says more.",
    "StoreUnreachable": "Try again; workers do by themselves. [The database is down](../operations/database-down.md).",
    "OutcomeUnknown": "Look whether it is there (`windlass jobs list`, or the id that you gave), then repeat it.",
    "StoreForbidden": "Let the owner type what the message ends with.",
    "SchemaMissing": "`windlass migrate`.",
    "SchemaTooOld": "`windlass migrate --plan`, then `windlass migrate`; [upgrade](../operations/upgrade.md).",
    "StoreReadOnly": "Give the user write rights on the file **and** its directory; on PostgreSQL connect to the primary.",
    "PoolerInTheWay": '`pooler="transaction"`, or connect to the server directly; [poolers](../operations/postgres.md).',
    "StoreReplaced": "Start the program anew; never move or delete a file that is open.",
    "StoreCorrupt": "Of a row: correct it as the message says. Of a file: stop everybody, keep it with its `-wal`, restore a backup.",
    "ConstraintViolated": "Somebody else writes to these tables: `windlass doctor`. If nobody does, it is a bug of ours.",
    "NoConnection": "Use `transaction.enqueue` and `transaction.settle` alone on this store.",
    "TransactionOver": "Open a new transaction.",
    "TransactionConflict": "Run the transaction again.",
    "SchemaTooNew": "Install the newer version of Windlass here, too; [upgrade](../operations/upgrade.md).",
    "MigrationChanged": "Use the version that made the schema, or compare: `windlass migrate --plan`.",
    "UnknownStore": "Correct the URL: the message names those that are known.",
    "StoreMoved": "Name the store that it moved to; [moving a store](../operations/moving.md).",
    "MissingExtra": "Install what the message names: `pip install 'windlass[…]'`.",
    "StoreMoving": "Wait, and try again; `windlass copy SRC DST --dry-run` says how far it is.",
    "CopyRefused": "Read the message: it names what has to be done first; [moving a store](../operations/moving.md).",
}  # fmt: skip


def listed() -> list[type[WindlassError]]:
    """In the order of the source."""
    return [
        one
        for module in MODULES
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, WindlassError) and one.__module__ == module.__name__
    ]


def meaning(error: type[WindlassError]) -> str:
    """Its docstring, else the words of its message: what is computed stands in braces there."""
    own = error.__dict__.get("__doc__")
    if own:
        return " ".join(own.split())
    source = re.sub(r"\{\w+ or f'([^']*)'\}", r"\1", inspect.getsource(error)).replace('", f"', ": ")
    said = re.findall(r'f?"((?:[^"\\]|\\.)*)"|f?\'((?:[^\'\\]|\\.)*)\'', source.partition("super().__init__(")[2])
    text = "".join(double or single for double, single in said)
    plain = re.sub(r"\{[^{}]*\}", "…", text).removeprefix("…: ")
    plain = plain if "_" in plain.split()[0] else plain[0].upper() + plain[1:]
    return plain + ("" if plain.endswith("…") else ".")


def answer(error: type[WindlassError]) -> str:
    bare = error.__new__(error)
    Exception.__init__(bare, "")
    trouble = trouble_of(bare)
    return f"{trouble.status} `{trouble.kind}`" if trouble.status != 500 else ""


def rows() -> Iterator[str]:
    for error in listed():
        again = "yes" if error.retryable else ""
        cells = (
            f'<a id="{error.__name__}"></a>`{error.__name__}`',
            meaning(error),
            again,
            answer(error),
            DO[error.__name__],
        )
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page() -> str:
    missing = {one.__name__ for one in listed()} - set(DO)
    assert not missing, f"say in DO of {__file__} what to do about {', '.join(sorted(missing))}"
    return "\n".join([
        "# Errors\n",
        "This page is generated from the errors in `src/windlass`: `make docs` writes it, `make lint` fails when it is out of date.\n",
        "Every message says what happened, why, and what to type next. *Again*: the same call may succeed later without anything",
        "being changed (`error.retryable`). *HTTP*: status and code, the code as `urn:windlass:…` in the field `type` of",
        "`application/problem+json`; errors without one never leave a program that way, or are answered with 500 and told in the",
        f"log alone. The command line ends with a code: {EXIT_CODES[12].lower()}{EXIT_CODES[13:]}\n",
        "| error | what it means | again | HTTP | what to do |\n|---|---|---|---|---|",
        *rows(),
        "",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), sys.argv[1:]))
