"""`make soak`: a steady mixed load on SQLite and on PostgreSQL at once, with retention on and workers killed now and then.
Every few seconds throughput, memory, open files and the sizes of everything are written down; in the end the last two
thirds of each are either flat or not.

    tasks.py      the load: what is enqueued, what the handlers do
    program.py    the processes: workers and a producer
    stage.py      the processes of one store, killed and replaced
    sizes.py      how large a store is, asked past the driver
    flatness.py   is a series flat?
    report.py     what was seen, as Markdown and as JSON
"""
