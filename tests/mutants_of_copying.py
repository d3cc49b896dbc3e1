"""The bugs that mutants.py plants in what copies a store, and the tier that is to catch each."""

from __future__ import annotations

Planted = tuple[str, str, str, str, tuple[str, ...]]  # what, file, old, new, tiers; after a colon, which of its tests

OPS = "drivers/ops/copying.py"
COPYING: list[Planted] = [
    ("copy: a file that has moved still takes deletes and updates", "drivers/sqlite/copying.py",
     'WRITES: Final = ("insert", "update", "delete")', 'WRITES: Final = ("insert",)',
     ("copies: every_kind_of_write and sqlite",)),
    ("copy: a schema that has moved forgets its guard on jobs", "drivers/postgres/copying.py",
     "        for table in GUARDED:\n            yield (\n", "        for table in GUARDED[7:]:\n            yield (\n",
     ("copies: every_kind_of_write and postgres",)),
    ("copy: numbers begin anew in the target", "drivers/sqlite/copying.py",
     "(table.name, max(here, number))", "(table.name, here)", ("copies: numbers_go_on",)),
    ("copy: claims go on while running jobs are waited for", OPS,
     '("claims", paused_because(mark.other))', "None", ("copies: nothing_is_claimed and sqlite",)),
    ("copy: jobs that run are not waited for", OPS,
     "    if not abandon and (yield from leased(hand, now))[0]:\n        return False\n", "",
     ("copies: a_claim_that_slipped_in",)),
    ("copy: a target that was given to another copy is written to", OPS,
     "if mark is None or mark.copy_id != copy_id or mark.phase != \"receiving\":", "if mark is None:",
     ("copies: a_copier_that_slept",)),
    ("copy: a copier that stalls writes into what was given up meanwhile", OPS,
     "    yield from hand.hold_marks()\n    mark = yield", "    mark = yield", ("copies: stalls_in_the_middle",)),
    ("copy: what differs is not noticed", "copying.py",
     "if (ours.rows, ours.text) != (theirs.rows, theirs.text):", "if ours.rows != theirs.rows:",
     ("copies: a_difference_keeps",)),
    ("copy: somebody else's copy is gone on with", "copying.py",
     "        if self._is_at_work(mark):\n            age", "        if False:\n            age",
     ("copies: a_second_copier",)),
    ("copy: given up, the source stays closed", OPS,
     "turn(hand, OUT, was, None, None)", 'turn(hand, OUT, was, None, "as it is")', ("copies: given_up_leaves",)),
]  # fmt: skip
