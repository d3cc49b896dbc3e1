"""The bugs that mutants.py plants in `windlass bench`: whoever measures must not harm what is there."""

from __future__ import annotations

from mutants_of_postgres import Planted

HERE = "bench/place.py"
BENCH: list[Planted] = [
    ("bench: a schema is left behind", HERE, "        _drop(url, name)\n", "        pass\n", ("bench: every_part and postgresql",)),
    ("bench: it works in the schema that is there", HERE,
     "schema=self.schema, migrate=\"empty\")", "migrate=\"empty\")", ("bench: every_part and postgresql",)),
    ("bench: a store that the environment names is loaded", "cli/bench.py",
     "place_for(store or common.store)", "place_for(store or common.url)", ("bench: every_part and none",)),
    ("bench: SIGTERM cleans nothing up", "cli/bench.py",
     "loop.add_signal_handler(signal.SIGTERM, task.cancel)", "task.done()", ("bench: interrupted",)),
    ("bench: it takes the file that was named", HERE,
     "yield Place(url_of_file(directory / \"jobs.db\"), logs,", "yield Place(url or url_of_file(directory / \"jobs.db\"), logs,",
     ("bench: not_touched",)),
]  # fmt: skip
