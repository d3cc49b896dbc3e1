"""Write docs/reference/settings.md from the class of settings and its comments, so that the page cannot say anything else.

python tools/settings_reference.py            write the page
python tools/settings_reference.py --check    fail when the page is not what would be written
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from generated import ROOT, write_or_check

from windlass import config
from windlass.clock import SECOND
from windlass.config import Settings

PAGE: Final = ROOT / "docs" / "reference" / "settings.md"
SOURCE: Final = ROOT / "src" / "windlass" / "config.py"
UNITS: Final = (("d", 86_400 * SECOND), ("m", 60 * SECOND), ("s", SECOND))
READ_ON: Final = {  # where more is said of it
    "lease": "../start/workers.md", "leader_lease": "../operations/fleet.md", "worker_timeout": "../operations/fleet.md",
    "children": "../guides/isolation.md", "history": "../guides/history.md", "webhook_networks": "../guides/webhooks.md",
    "log_root": "../guides/isolation.md", "key_file": "../guides/encryption.md", "sqlite": "../guides/transactions.md",
    "schema": "../operations/postgres.md", "pooler": "../operations/postgres.md", "migrate": "../operations/upgrade.md",
    "token": "../guides/other-languages.md", "durability": "../drivers/which.md", "keep_usage": "../guides/usage.md",
    "retry": "../start/handlers.md", "idempotency_scope": "../start/enqueueing.md", "prefetch": "../operations/performance.md",
}  # fmt: skip


def comments() -> dict[str, str]:
    """What the source says behind each setting."""
    text = SOURCE.read_text()
    said = {
        token.start[0]: token.string.removeprefix("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    [settings] = [one for one in ast.parse(text).body if isinstance(one, ast.ClassDef) and one.name == "Settings"]
    found = {}
    for line in settings.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            words = [said[number] for number in range(line.lineno, (line.end_lineno or 0) + 1) if number in said]
            assert words, f"{line.target.id} has no comment in {SOURCE.name}"
            found[line.target.id] = words[0]
    return found


def default(name: str) -> str:
    value = getattr(Settings(), name)
    if name == "retry":
        return "Retry()"
    if name in config._DURATIONS:
        unit, size = next((unit, size) for unit, size in UNITS if value % size == 0 and (value >= size or size == SECOND))
        return f"{value // size}{unit}"
    return str(value)


def rows() -> Iterator[str]:
    words = comments()
    for field in fields(Settings):
        variable = "" if field.name == "retry" else f"`WINDLASS_{field.name.upper()}`"
        choices = config._CHOICES.get(field.name)
        told = words[field.name].partition("; see docs/")[0].replace("|", "\\|")
        told += f"; one of {', '.join(f'`{choice}`' for choice in choices)}" if choices else ""
        told += (
            f"; {config.COUNTS[field.name][0]:,} to {config.COUNTS[field.name][1]:,}" if field.name in config.COUNTS else ""
        )
        more = f" ([more]({READ_ON[field.name]}))" if field.name in READ_ON else ""
        yield f"| `{field.name}` | {variable} | `{default(field.name)}` | {told}{more} |"


def page() -> str:
    return "\n".join([
        "# Settings\n",
        "This page is generated from `src/windlass/config.py`: `make docs` writes it, `make lint` fails when it is out of date.\n",
        "A setting is given to `Windlass(...)` by name, else taken from the environment, else it is the default. `WINDLASS_URL`",
        "names the store, and `--store` wins over it. Durations are seconds or text such as `30s`, `5m`, `7d`. An unknown name is",
        "refused with a suggestion; a value that cannot be, by its name. Give all workers of a store the same settings.\n",
        "| setting | environment | default | |\n|---|---|---|---|",
        *rows(),
        "\nWhich of them bear on speed: [performance](../operations/performance.md).\n",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), sys.argv[1:]))
