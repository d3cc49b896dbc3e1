"""Handlers in processes of their own, and programs: what one of them does to its process, it does to no other job.

    worker ── control ──▶ fork server ── forks ──▶ child        one job at a time, by frames on a socket of its own
       │                      └───────── starts ─▶ program      its output on a pipe
       └── keeps the leases, settles, kills

The *fork server* (`server.py`) is small and has one thread, so that it can be forked at any time. It is the parent of all
of them: it knows how each has ended, and when the worker is gone it kills what is left. A *child* (`child.py`) imports the
app by its name and calls its handlers. On the worker's side `nursery.py` talks to the fork server, `calling.py` to one
child, `running.py` starts one program, and `runner.py` is the face that the worker sees.
"""

from windlass.worker.processes.runner import Processes

__all__ = ["Processes"]
