"""The bugs that mutants.py plants where secrets and statements are guarded, and the tier that is to catch each."""

from __future__ import annotations

from mutants_of_web import Planted

LISTS, DOCTOR, FUZZ = ("injection",), ("doctor",), ("fuzz",)
GUARDS: list[Planted] = [
    ("statements: a column's value is written into them", "drivers/filters.py", 'f"{column} = {bound(value)}"',
     "f\"{column} = '{value}'\"", LISTS),
    ("files: migrate makes one that everybody reads", "drivers/sqlite/store.py", "    prepare(path)\n", "", DOCTOR),
    ("doctor: files of everybody are fine", "drivers/sqlite/exposure.py", "mode & (stat.S_IRWXG | stat.S_IRWXO)",
     "mode & stat.S_IRWXG", DOCTOR),
    ("doctor: passwords in the process list are fine", "admin/process_list.py", "redacted(value) != value", "False", DOCTOR),
    ("doctor: tokens of people may last for ever", "admin/security.py",
     "if token.expires_at is None and POWERFUL", "if False and POWERFUL", DOCTOR),
    ("cursors: the end of the calendar breaks them", "admin/listing.py", "instant(part) if isinstance(part, datetime) else part",
     "part", FUZZ),
]  # fmt: skip
