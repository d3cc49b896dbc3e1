"""`manage.py windlass …`: the windlass command, on the store and with the tasks of this project."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from windlass.django.configuring import environment
from windlass.django.program import TARGET, the_app

PROGRAMS: Final = ("worker", "tick", "serve", "dev")  # that take the app as their first argument
TASKS: Final = (["enqueue"], ["templates", "put"])  # that take it as an option
DJANGOS: Final = ("--settings", "--pythonpath")  # seen to by manage.py


class Command(BaseCommand):
    help = "The windlass command for this project: worker, jobs, queues, schedules, doctor and all the others."
    requires_system_checks: Sequence[str] = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("tokens", nargs=argparse.REMAINDER, help="see: manage.py windlass --help")

    def run_from_argv(self, argv: list[str]) -> None:
        """What is typed is not Django's to read."""
        sys.exit(run(_without_djangos(argv[2:])))

    def handle(self, *args: Any, **options: Any) -> None:
        code = run(options["tokens"])
        if code:
            raise CommandError(f"windlass ended with {code}", returncode=code)


def run(tokens: Sequence[str]) -> int:
    from windlass.cli import main

    app = the_app()
    if not any(token.split("=")[0] == "--store" for token in tokens):
        os.environ.update(environment(app.conf, app.client.url))
    return main(with_app(list(tokens)))


def with_app(tokens: list[str]) -> list[str]:
    """The commands that need a program have this one, unless another is named."""
    if tokens[:1] and tokens[0] in PROGRAMS and (len(tokens) == 1 or tokens[1].startswith("-")):
        return [tokens[0], TARGET, *tokens[1:]]
    for command in TASKS:
        if tokens[: len(command)] == command and not any(token.split("=")[0] == "--app" for token in tokens):
            return [*command, "--app", TARGET, *tokens[len(command) :]]
    return tokens


def _without_djangos(tokens: Sequence[str]) -> list[str]:
    kept, skips = list[str](), False
    for token in tokens:
        if skips:
            skips = False
        elif token in DJANGOS:
            skips = True
        elif token.split("=")[0] not in DJANGOS:
            kept.append(token)
    return kept
