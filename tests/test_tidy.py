"""The style rules a machine can check, so that the tenth contributor cannot erode what the first one built."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from windlass.drivers.postgres.sql import SQL as POSTGRES
from windlass.drivers.sqlite.sql import SQL as SQLITE
from windlass.drivers.statement import Blocks
from windlass.testing import conformance
from windlass.testing.conformance import DriverConformance, DurabilityPromises, SqlPromises, TransactionPromises
from windlass.testing.conformance.hand_made import HandMadePromises

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "windlass"
FILES = sorted(SOURCE.rglob("*.py"))
SQL_TEXT = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("sql/*.sql")}
DRIVERS = {"sqlite": SQLITE, "postgres": POSTGRES}
MANY_WRITERS = {"postgres"}

# A block has the same name in every driver where it does the same. What one writer does step by step, many writers do in
# one statement or under locks of their own:
ONLY_SQLITE = set(
    "take_lock last_seq queue_rules take_key key_holder pick_types pick_rows pick_rows_types picked insert_runs "
    "begin_runs close_expired try_ack undo_ack end_ack ack_begun close_acked close_begun close_unstarted report "
    "close_run place permits_of claim_limited pick pick_share pick_firsts charge_share set_wake "
    "pick_limited_rows pick_firsts_rows "
    "parked_of_share foreign_keys".split()
)
ONLY_POSTGRES = set(
    # one statement for a whole batch
    "insert_jobs insert_alike claim_one claim_many claim_short reached take_keys key_holders dedupe_keys_held give_key "
    "places ack_unkept "
    "leased_by pick_shares charge_shares parked_firsts set_wakes "
    # locks, in their order
    "take lock_queues hold_queues lock_limits hold_limits try_limits lock_groups lock_guards lock_jobs try_jobs lock_ended "
    "hold_leader hold_templates lock_schedules lock_schedule_named "
    "lock_holders replaceable try_guards limits_there begin_hold be_brief hold_claims undo_hold end_hold "
    "lock_usage share_usage shared_rows_of concerning open_groups reach lock_open stopped_with members_in "
    "doubtful_groups lock_doomed check_at_once "
    "lock_order lock_hold lock_webhooks share_webhooks lock_waiting_events keep_events lock_deliveries lock_open_for_long "
    # claims that are under way while a queue is taken
    "claims_under_way still_under_way pause "
    # whole days and months
    "add_partitions old_partitions drop_days drop_month "
    # what was stored when a reply was lost; hearing of work; the server's health
    "claimed_before enqueued_before pulse tell who server_facts table_health index_states lacking_rights old_transactions "
    "prepared_transactions idle_slots lock_blockers role_facts public_rights".split()
)


@cache  # thousands of questions about the same few hundred files
def tree(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, its module first."""
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def calls(path: Path) -> frozenset[str]:
    return frozenset(ast.unparse(node.func) for node in tree(path) if isinstance(node, ast.Call))


def imports(path: Path) -> Iterator[str]:
    for node in tree(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def offenders(rule: Callable[[Path], Iterable[str]], files: Iterable[Path] = FILES) -> dict[str, list[str]]:
    """What breaks a rule, by file. One test for all files: to hand out one for each takes longer than to look."""
    broken = {str(path.relative_to(SOURCE)): sorted(rule(path)) for path in files}
    return {name: found for name, found in broken.items() if found}


CLOCKS = re.compile(r"^(time\.(time|time_ns|monotonic|clock_gettime)(_ns)?|datetime\.(now|utcnow|today)|date\.today)$")


def test_only_the_clock_reads_a_clock() -> None:
    def read(path: Path) -> list[str]:
        allowed = {"clock.py"} | (
            {"store.py"} if path.parent.name == "sqlite" else set()
        )  # a deadline for switching to WAL
        return [] if path.name in allowed else [call for call in calls(path) if CLOCKS.match(call)]

    assert offenders(read) == {}


def test_nothing_stored_is_ever_executed() -> None:
    banned = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}
    assert offenders(lambda path: {name.split(".")[0] for name in imports(path)} & banned) == {}

    def executed(path: Path) -> set[str]:
        runs = {"eval", "exec", "__import__", "importlib.import_module"}
        if path == SOURCE / "loading.py":  # it imports what a person typed, never something stored
            runs.remove("importlib.import_module")
        if path == SOURCE / "__init__.py":  # it imports modules of its own, by a table of its own
            runs.remove("importlib.import_module")
        return runs & calls(path)

    assert offenders(executed) == {}


def test_core_is_pure() -> None:
    """No await, no IO, no clock, no randomness; it knows values and policies only."""
    core = sorted((SOURCE / "core").glob("*.py"))
    foreign = {"asyncio", "random", "secrets", "time", "socket", "os", "sys", "threading", "logging", "sqlite3", "apsw"}
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    assert offenders(lambda path: [type(node).__name__ for node in tree(path) if isinstance(node, waits)], core) == {}
    assert offenders(lambda path: {name.split(".")[0] for name in imports(path)} & foreign, core) == {}
    outer = ("windlass.drivers", "windlass.testing")
    assert offenders(lambda path: [name for name in imports(path) if name.startswith(outer)], core) == {}
    assert offenders(lambda path: {"open", "print", "input"} & calls(path), core) == {}


def test_files_stay_small() -> None:
    """A file that reaches the ceiling is a design question."""
    assert offenders(lambda path: ["too long"] * (len(path.read_text().splitlines()) > 400)) == {}


def test_functions_fit_on_a_screen() -> None:
    def long(path: Path) -> Iterator[str]:
        for node in tree(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno >= 60:
                yield node.name

    assert offenders(long) == {}


def test_every_module_says_what_it_is_for() -> None:
    def silent(path: Path) -> list[str]:
        module = tree(path)[0]
        assert isinstance(module, ast.Module)
        return [] if ast.get_docstring(module) else ["a module opens with why it exists"]

    assert offenders(silent) == {}
    assert offenders(lambda path: re.findall(r"\b(?:TODO|FIXME|XXX|HACK)\b", path.read_text())) == {}
    vague = {"utils", "helpers", "common", "manager", "base", "misc"}
    assert offenders(lambda path: {path.stem} & vague) == {}


@pytest.mark.parametrize("blocks", DRIVERS.values(), ids=DRIVERS)
def test_a_claim_never_counts_running_jobs(blocks: Blocks) -> None:
    """A limit is a row with a counter; counting leases inside a claim sees an old snapshot and overshoots."""
    # None of these claims, and counting is what they are for.
    counting = {"count_holders", "miscounted", "limit_uses", "jobs_ahead"}
    counting |= {"count_jobs", "waiting_types", "count_ended", "roll_up", "count_late", "count_late_days", "ended_alike"}
    counting |= {"members_of", "ended_jobs", "running_now"}  # for people
    counting |= {"ack_unkept", "meter"}  # what has just succeeded
    counting |= {"claim_many", "server_facts", "lock_blockers", "insert_alike"}  # what is picked, sessions, what it stored
    for block in blocks:
        if block.name not in counting:
            assert "count(" not in block.sql.lower(), block.name


@pytest.mark.parametrize("blocks", DRIVERS.values(), ids=DRIVERS)
def test_nothing_decides_on_a_sample(blocks: Blocks) -> None:
    """`queue_stats` is a picture of a minute that is over: written, shown and dropped; no other block reads it."""
    assert {block.name for block in blocks if "queue_stats" in block.sql} == {
        "is_sampled", "add_sample", "drop_samples", "all_samples", "samples_at",
    }  # fmt: skip


def test_sql_never_asks_for_the_time() -> None:
    for name, text in SQL_TEXT.items():
        if name.endswith("health.sql"):  # how old a transaction is, only the server can tell
            continue
        assert not re.search(r"\b(now\s*\(|current_timestamp|julianday|strftime|unixepoch)", text, re.I), name


@pytest.mark.parametrize("driver", DRIVERS)
def test_every_sql_block_is_used_and_every_used_block_exists(driver: str) -> None:
    own = "\n".join(path.read_text() for path in (SOURCE / "drivers" / driver).rglob("*.py"))
    used = set(re.findall(r"\bSQL\.([a-z_]+)", own))
    shared = "\n".join(path.read_text() for path in (SOURCE / "drivers" / "ops").rglob("*.py"))
    used |= set(re.findall(r"\bsql\.([a-z_]+)", shared))
    if driver in MANY_WRITERS:
        used |= set(re.findall(r"\bdb\.lock\(\s*\"([a-z_]+)\"", shared))
    assert used == {block.name for block in DRIVERS[driver]}


def test_blocks_have_the_same_names_in_every_driver() -> None:
    sqlite, postgres = ({block.name for block in blocks} for blocks in DRIVERS.values())
    assert sqlite - postgres == ONLY_SQLITE
    assert postgres - sqlite == ONLY_POSTGRES


def test_every_promise_has_words_and_a_good_name() -> None:
    for suite in (DriverConformance, TransactionPromises, DurabilityPromises, SqlPromises):
        names = [name for name in dir(suite) if name.startswith("test_")]
        assert names
        for name in names:
            assert getattr(suite, name).__doc__, f"{name} promises nothing"
            assert len(name) > len("test_") + 8, f"{name} is not a sentence"


def test_no_promise_is_hidden_by_another_of_its_name() -> None:
    """Of two in one suite Python keeps one, and the other would never be tried."""
    suites = [*DriverConformance.__bases__, TransactionPromises, DurabilityPromises, SqlPromises, HandMadePromises]
    names = [name for suite in suites for name in vars(suite) if name.startswith("test_")]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def test_conformance_never_names_a_database() -> None:
    files = list(Path(conformance.__file__).parent.glob("*.py"))
    assert len(files) > len(DriverConformance.__bases__)
    for path in files:
        assert not re.search(r"sqlite|postgres|apsw|psycopg", path.read_text(), re.I), path.name


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


def test_importing_windlass_is_light() -> None:
    """Drivers, command line and web are imported when they are used."""
    import subprocess
    import sys

    heavy = ("apsw", "rich", "cyclopts", "cronsim")
    script = f"import sys, windlass; print(len([m for m in sys.modules if m.startswith({heavy})]))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
