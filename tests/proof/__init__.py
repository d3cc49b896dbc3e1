"""`make proof`: the tests that the guarantees page names, a campaign of the simulator, and real processes that are killed,
in a bounded time; then a report that says what held, what did not, and what nobody looked at.

    promises.py    the page, as promises and the tests that hold each
    tried.py       those tests, run; `recorder.py` is what sits inside pytest
    simulated.py   the campaign
    killed.py      workers and producers on SQLite and PostgreSQL, killed, stopped and cut off
    evidence.py    what each of these found, as values
    verdict.py     what is wrong with it
    report.py      all of it, as Markdown and as JSON
"""
