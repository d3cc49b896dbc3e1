"""The tree of commands, and the page that `windlass` alone shows. A command's module is imported when it is typed."""

from __future__ import annotations

import os
import sys
from typing import Final

from cyclopts import App

from windlass import __version__
from windlass.cli.output import EXIT_CODES
from windlass.cli.session import Common, epilogue

OVERVIEW: Final = """\
windlass: a durable job queue. Jobs live in a file or a database and survive whatever runs them.

  begin     init, demo                      a first tasks.py; the whole thing at work
  run       worker APP, tick APP            be a worker; run what is due once
  enqueue   enqueue TASK name=value         store a job
  look      jobs list, jobs show, watch     what waits, runs, has failed, and why
            jobs logs ID [--follow]         what a job has logged
            queues list, dlq list           by queue; dead letters, also by error
            queues show, holds list         one queue in order; who holds which
            groups list, groups show        jobs that belong together, and how far they are
            workers                         who works here, who is silent, who leads
  change    jobs retry, run-now, cancel, move, swap, priority, delete
            queues pause, resume, renormalise             dlq replay, purge
            holds acquire, release, run     a queue for yourself, or for one command
            groups cancel, retry            a whole group
            limits list, set, remove        how many may run at once; pause a type or an org
  repeat    schedules list, show, preview   rules that make jobs, and when they will
            schedules create, update, pause, resume, run, delete
            templates list, show, put, archive, delete
  tell      webhooks list, show, create, update, enable, disable, rotate, delete
            webhooks test, deliveries, replay             signed messages to other programs
  store     doctor, migrate                 is all well; schema steps
  more      version, completion             COMMAND --help explains each, with examples

Everywhere: --store URL (else $WINDLASS_URL, else sqlite:///windlass.db), --json, --words SYSTEM
"""

GROUPS: Final = ("jobs", "dlq", "queues", "limits", "groups", "schedules", "templates", "holds", "webhooks")
COMMANDS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {  # name: where it is, examples
    "worker": ("worker:worker", (
        "windlass worker tasks:app", "windlass worker tasks --queues mail,default --concurrency 50",
        "windlass worker tasks.py --drain",
    )),
    "workers": ("workers:workers", ("windlass workers", "windlass workers --json")),
    "tick": ("worker:tick", ("windlass tick tasks:app --limit 10",)),
    "enqueue": ("enqueue:enqueue", (
        "windlass enqueue --app tasks send_email to=ada@example.com subject='Hello there'",
        "windlass enqueue report.daily day=3 --queue reports --delay 5m",
        "windlass enqueue import --payload @rows.json --idempotency-key import-7",
    )),
    "watch": ("watch:watch", ("windlass watch 0192f0c1-2345-7890-8abc-def012345678",)),
    "doctor": ("store:doctor", ("windlass doctor", "windlass doctor --store sqlite:////var/lib/jobs.db")),
    "migrate": ("store:migrate", ("windlass migrate --plan", "windlass migrate")),
    "init": ("start:init", ("windlass init", "windlass init shop")),
    "demo": ("start:demo", ("windlass demo",)),
    "version": ("start:version", ("windlass version --json",)),
    "completion": ("completion:completion", (
        'eval "$(windlass completion bash)"   # in ~/.bashrc',
        'eval "$(windlass completion zsh)"    # in ~/.zshrc, after compinit',
        "windlass completion fish > ~/.config/fish/completions/windlass.fish",
    )),
}  # fmt: skip


def commands() -> App:
    app = App(
        name="windlass", help="A durable job queue for Python.", version=__version__, help_format="plaintext",
        help_epilogue=EXIT_CODES,
    )  # fmt: skip
    app.command(overview, show=False)
    for name in GROUPS:
        app.command(f"windlass.cli.{name}:app", name=name)
    for name, (where, examples) in COMMANDS.items():
        app.command(f"windlass.cli.{where}", name=name, help_epilogue=epilogue(*examples))
    return app


def prepare_help(app: App) -> None:
    """In a pipe, no boxes and no breaks at the width of nothing."""
    if not sys.stdout.isatty():
        from cyclopts.help.formatters import PlainFormatter

        os.environ.setdefault("COLUMNS", "124")
        app.help_formatter = PlainFormatter()


def overview(*, common: Common = Common()) -> None:
    """What there is and where to begin."""
    if common.json:
        common.out.emit(version=__version__)
    else:
        sys.stdout.write(f"{OVERVIEW}{EXIT_CODES}\n")
