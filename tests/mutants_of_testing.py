"""The bugs that mutants.py plants in what users test their jobs with, and the tests that catch each."""

from __future__ import annotations

from mutants_of_postgres import Planted

TESTING: list[Planted] = [
    ("faults: a handler that outlives its worker is heard", "testing/faults.py",
     "(dead or running.job.token in self._gone)", "dead", ("users_faults: dead_say",)),
    ("faults: one that never happened is no failure", "testing/faults.py",
     "if one.left > 0 and one.expected]", "if one.left < 0]", ("users_faults: never_happened", "plugin: told_in_words")),
    ("faults: what a dead worker held is left where it is", "testing/app.py",
     "            await take_back(self.app.client, worker.id)\n", "            pass\n", ("users_faults: takes_over",)),
    ("faults: a worker dies before its success is stored, not after", "testing/faults.py",
     '"after_settle": ("settle", "die_after")', '"after_settle": ("settle", "die_before")', ("users_faults: takes_over",)),
    ("faults: what must never run twice is run twice", "testing/faults.py",
     'job.crash_policy == "fail"', 'job.crash_policy == ""', ("users_faults: twice_is_once",)),
    ("testing: a schedule begins with the first drain", "testing/app.py",
     "        if self.app.crons:  #", "        if not self.app:  #", ("users_tests: count_from",)),
    ("plugin: the farthest marker wins", "testing/plugin.py",
     "{**marker.kwargs, **said}", "{**said, **marker.kwargs}", ("plugin: on_a_store_of_its_own",)),
]  # fmt: skip
