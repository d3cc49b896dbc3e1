"""The bugs that mutants.py plants in what `history="failures"` leaves out, and the tier that is to catch each."""

from __future__ import annotations

Planted = tuple[str, str, str, str, tuple[str, ...]]  # what, file, old, new, tiers; after a colon, which of its tests

PG = "drivers/postgres/"
SQL = "drivers/sqlite/sql/"
HISTORY: list[Planted] = [
    ("history: a claim writes a run for every job", SQL + "leases.sql",
     "from json_each(:seqs)) and history is null\non", "from json_each(:seqs))\non", ("conformance: leaves_no_run",)),
    ("history: a run that a hand wrote ahead stops a claim", SQL + "leases.sql",
     "and history is null\non conflict do nothing;", "and history is null;", ("conformance: hand_wrote_ahead",)),
    ("history: pg run that a hand wrote ahead stops a claim", PG + "leases.py",
     'return taken.constraint == "runs_pkey"', "return False", ("promises: hand_wrote_ahead",)),
    ("history: a failure leaves no run", "drivers/sqlite/settlement.py",
     "    if unkept:\n        yield SQL.keep_runs(items=to_json(unkept))\n    effects", "    effects",
     ("conformance: whole_run",)),
    ("history: a crash leaves no run", "drivers/sqlite/leases.py",
     "        if unkept:\n            yield SQL.keep_runs(items=to_json(unkept))\n", "", ("conformance: same_evidence",)),
    ("history: a success without a row is not counted", "drivers/sqlite/settlement.py",
     "        if unkept:\n            yield SQL.meter(", "        if unkept and not lean:\n            yield SQL.meter(",
     ("conformance: complete_without_history",)),
    ("history: artifacts are forgotten", "core/history.py",
     "return change.report is not None and bool(change.report.artifacts)", "return False", ("core: history",)),
    ("history: a batch is counted in each roll-up", SQL + "duties.sql",
     "  from usage_batches\n where at > :counted and at <= :edge", "  from usage_batches\n where at <= :edge",
     ("conformance: counted_in_bites",)),
    ("history: the charts miss what left no row", "drivers/ops/samples.py",
     "unkept=bool(unkept)", "unkept=False", ("conformance: runs_without_a_row",)),
    ("history: what the charts need is pruned", SQL + "duties.sql",
     "or finished_at <= coalesce(:watermark, finished_at))", "or finished_at > 0)", ("conformance: not_pruned_without",)),
    ("history: who runs without a row is taken for damage", SQL + "repair.sql",
     "executions)\n   and (history is null or executions = 0 or claimed_at is null);", "executions);",
     ("histories: no_damage",)),
    ("history: pg success writes no usage", PG + "settlement.py",
     "(ack_unkept if unkept else ack)(seqs", "ack(seqs", ("promises: complete_without_history",)),
    ("history: pg crash leaves no run", PG + "sql/leases.sql",
     "    from locked where history is not null\n", "    from locked where false\n", ("promises: same_evidence",)),
    ("history: pg failure leaves no run", PG + "settlement.py",
     "    if kept:\n        yield from DIALECT.keep_runs", "    if not kept:\n        yield from DIALECT.keep_runs",
     ("promises: whole_run",)),
]  # fmt: skip
