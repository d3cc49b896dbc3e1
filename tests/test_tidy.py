"""The style rules a machine can check, so that the tenth contributor cannot erode what the first one built."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.drivers.postgres.sql import SQL as POSTGRES
from windlass.drivers.sqlite.sql import SQL as SQLITE
from windlass.drivers.statement import Blocks
from windlass.testing import conformance
from windlass.testing.conformance import DriverConformance, DurabilityPromises, SqlPromises, TransactionPromises

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "windlass"
FILES = sorted(SOURCE.rglob("*.py"))
SQL_TEXT = {str(path.relative_to(SOURCE)): path.read_text() for path in SOURCE.rglob("sql/*.sql")}
DRIVERS = {"sqlite": SQLITE, "postgres": POSTGRES}
MANY_WRITERS = {"postgres"}

# A block has the same name in every driver where it does the same. What one writer does step by step, many writers do in
# one statement or under locks of their own:
ONLY_SQLITE = set(
    "take_lock last_seq queue_rules take_key key_holder pick_types pick_rows pick_rows_types picked changed insert_runs "
    "begin_runs close_expired try_ack undo_ack end_ack ack_begun close_acked close_begun close_unstarted report "
    "close_run place permits_of claim_limited lapsed_permits pick pick_share pick_firsts charge_share set_wake "
    "pick_limited_rows pick_firsts_rows "
    "parked_of_share".split()
)
ONLY_POSTGRES = set(
    # one statement for a whole batch
    "insert_jobs claim_one claim_many take_keys key_holders dedupe_keys_held give_key places lapsed "
    "leased_by pick_shares charge_shares parked_firsts set_wakes "
    # locks, in their order
    "take lock_queues hold_queues lock_limits hold_limits try_limits lock_groups lock_guards lock_jobs lock_ended "
    "hold_leader hold_templates lock_schedules lock_schedule_named "
    "lock_holders replaceable try_guards limits_there begin_hold be_brief hold_claims undo_hold end_hold "
    "lock_usage share_usage shared_rows_of concerning open_groups reach lock_open stopped_with members_in "
    "lock_order lock_hold lock_webhooks share_webhooks lock_waiting_events lock_deliveries lock_open_for_long "
    # claims that are under way while a queue is taken
    "claims_under_way still_under_way pause "
    # what was stored when a reply was lost; hearing of work; the server's health
    "claimed_before enqueued_before pulse tell who server_facts table_health index_states lacking_rights old_transactions "
    "prepared_transactions idle_slots lock_blockers".split()
)


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def calls(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


CLOCKS = re.compile(r"^(time\.(time|time_ns|monotonic|clock_gettime)(_ns)?|datetime\.(now|utcnow|today)|date\.today)$")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_only_the_clock_reads_a_clock(path: Path) -> None:
    allowed = {"clock.py"} | ({"store.py"} if path.parent.name == "sqlite" else set())  # a deadline for switching to WAL
    if path.name not in allowed:
        assert [call for call in calls(path) if CLOCKS.match(call)] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_nothing_stored_is_ever_executed(path: Path) -> None:
    banned = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}
    assert {name.split(".")[0] for name in imports(path)} & banned == set()
    runs = {"eval", "exec", "__import__", "importlib.import_module"}
    if path == SOURCE / "cli" / "loading.py":  # it imports what a person typed on the command line, never something stored
        runs.remove("importlib.import_module")
    if path == SOURCE / "__init__.py":  # it imports modules of its own, by a table of its own
        runs.remove("importlib.import_module")
    assert runs & set(calls(path)) == set()


@pytest.mark.parametrize("path", sorted((SOURCE / "core").glob("*.py")), ids=lambda p: p.name)
def test_core_is_pure(path: Path) -> None:
    """No await, no IO, no clock, no randomness; it knows values and policies only."""
    for node in ast.walk(tree(path)):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    foreign = {"asyncio", "random", "secrets", "time", "socket", "os", "sys", "threading", "logging", "sqlite3", "apsw"}
    named = set(imports(path))
    assert {name.split(".")[0] for name in named} & foreign == set()
    assert not any(name.startswith(("windlass.drivers", "windlass.testing")) for name in named)
    assert {"open", "print", "input"} & set(calls(path)) == set()


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_stay_small(path: Path) -> None:
    """A file that reaches the ceiling is a design question."""
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_functions_fit_on_a_screen(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            assert node.end_lineno - node.lineno < 60, f"{node.name} is too long"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(tree(path)), "a module opens with why it exists"
    assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", path.read_text())
    assert path.stem not in {"utils", "helpers", "common", "manager", "base", "misc"}


@pytest.mark.parametrize("blocks", DRIVERS.values(), ids=DRIVERS)
def test_a_claim_never_counts_running_jobs(blocks: Blocks) -> None:
    """A limit is a row with a counter; counting leases inside a claim sees an old snapshot and overshoots."""
    # None of these claims, and counting is what they are for.
    counting = {"count_holders", "miscounted", "limit_uses", "jobs_ahead"}
    counting |= {"count_jobs", "waiting_types", "count_ended", "roll_up", "count_late", "count_late_days", "ended_alike"}
    counting |= {"members_of", "ended_jobs"}  # for people
    counting |= {"claim_many", "server_facts", "lock_blockers"}  # jobs that are picked, by queue; sessions of the server
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
        for name in dir(suite):
            if name.startswith("test_"):
                assert getattr(suite, name).__doc__, f"{name} promises nothing"
                assert len(name) > len("test_") + 8, f"{name} is not a sentence"


def test_conformance_never_names_a_database() -> None:
    directory = Path(conformance.__file__).parent
    for path in directory.glob("*.py"):
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
