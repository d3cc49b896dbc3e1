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

  begin     init, demo                      a small project that works; the whole thing at work
            bench [STORE]                   how fast a store is on this machine
  run       worker APP, tick APP            be a worker; run what is due once
  see       serve [APP], dev APP            the dashboard and the HTTP API; both with a worker, while you write
  enqueue   enqueue TASK name=value         store a job
  look      jobs list, jobs show, watch     what waits, runs, has failed, and why
            jobs logs ID [--follow]         what a job has logged
            queues list, dlq list           by queue; dead letters, also by error
            queues capacity                 is the fleet big enough?
            queues show, holds list         one queue in order; who holds which
            groups list, groups show        jobs that belong together, and how far they are
            workers                         who works here, who is silent, who leads
            top                             how things are, live
  change    jobs retry, run-now, cancel, move, swap, priority, delete
            jobs bulk ACTION [--dry-run]    one change to all jobs that match
            queues pause, resume, renormalise             dlq replay, purge
            holds acquire, release, run     a queue for yourself, or for one command
            groups cancel, retry            a whole group
            limits list, set, remove        how many may run at once; pause a type or an org
  repeat    schedules list, show, preview   rules that make jobs, and when they will
            schedules create, update, pause, resume, run, delete
            templates list, show, put, archive, delete
  access    tokens list, create, revoke     who may come in over HTTP
            audit                           who changed what
            usage                           what ran, and what it cost
            keys add FILE                   a new key, where payloads are encrypted
  tell      webhooks list, show, create, update, enable, disable, rotate, delete
            webhooks test, deliveries, replay             signed messages to other programs
  store     doctor, migrate                 is all well; schema steps
            copy SRC DST [--dry-run]        move a live store to another, or go on with it; --back gives it up
  more      version, completion             COMMAND --help explains each, with examples

Everywhere: --store URL (else $WINDLASS_URL, else sqlite:///windlass.db), --json, --words SYSTEM
"""

GROUPS: Final = (
    "jobs", "dlq", "queues", "limits", "groups", "schedules", "templates", "holds", "tokens", "keys", "webhooks",
)  # fmt: skip
COMMANDS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {  # name: where it is, examples
    "worker": ("worker:worker", (
        "windlass worker tasks:app", "windlass worker tasks --queues mail,default --concurrency 50",
        "windlass worker tasks.py --drain",
    )),
    "workers": ("workers:workers", ("windlass workers", "windlass workers --json", "windlass workers --here")),
    "serve": ("serve:serve", (
        "windlass serve", "windlass serve tasks:app --port 9000",
        "windlass serve --host 0.0.0.0 --allow-host jobs.example.org --tls-cert cert.pem --tls-key key.pem",
    )),
    "dev": ("dev:dev", ("windlass dev tasks:app",)),
    "tick": ("worker:tick", ("windlass tick tasks:app --limit 10",)),
    "enqueue": ("enqueue:enqueue", (
        "windlass enqueue --app tasks send_email to=ada@example.com subject='Hello there'",
        "windlass enqueue report.daily day=3 --queue reports --delay 5m",
        "windlass enqueue import --payload @rows.json --idempotency-key import-7",
    )),
    "top": ("top:top", ("windlass top", "windlass top --span 24h --interval 5", "windlass top --once")),
    "watch": ("watch:watch", ("windlass watch 0192f0c1-2345-7890-8abc-def012345678",)),
    "audit": ("audit:audit", (
        "windlass audit", "windlass audit --action job.cancel --actor token:ci", "windlass audit --since 7d --json",
    )),
    "usage": ("usage:usage", (
        "windlass usage --since 24h --step hour", "windlass usage --by org --by type --step all",
        "windlass usage --by org --csv > usage.csv",
    )),
    "doctor": ("store:doctor", ("windlass doctor", "windlass doctor --store sqlite:////var/lib/jobs.db")),
    "copy": ("copying:copy", (
        "windlass copy sqlite:////var/lib/jobs.db postgresql://shop@db.example.com/shop --dry-run",
        "windlass copy sqlite:////var/lib/jobs.db postgresql://shop@db.example.com/shop --wait 10m",
        "windlass copy postgresql://shop@db.example.com/shop sqlite:///jobs.db --back",
    )),
    "migrate": ("store:migrate", ("windlass migrate --plan", "windlass migrate")),
    "init": ("scaffold:init", ("windlass init", "windlass init shop", "windlass init shop --name 'The shop'")),
    "demo": ("start:demo", ("windlass demo",)),
    "bench": ("bench:bench", (
        "windlass bench", "windlass bench sqlite:////var/lib/jobs.db", "windlass bench postgresql://me@db/shop --jobs 5000",
        "windlass bench memory:// --json",
    )),
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
