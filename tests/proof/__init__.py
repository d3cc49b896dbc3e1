"""`make proof`: the tests that the guarantees page names, real processes under blows, and a campaign of the simulator, in a
bounded time; then a report that says what held, what did not, and what nobody looked at.

    promises.py    the page, as promises and the tests that hold each
    tried.py       those tests, run; `recorder.py` is what sits inside pytest
    simulated.py   the campaign
    killed.py      workers and a producer on SQLite and PostgreSQL, and what came of it; `storm.py` is what befalls them
    evidence.py    what each of these found, as values
    verdict.py     what is wrong with it
    report.py      all of it, as Markdown and as JSON
"""
