"""Whoever lacks an extra is told what to type. Each extra really alone is tried by test_matrix.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ASKED = {
    "asgi": ("server", "from windlass.asgi import lifespan"),
    "web": ("server", "from windlass.web.app import web_app"),
    "serve": ("server", "import asyncio; from windlass.cli.serve import serve; asyncio.run(serve(common=common))"),
    "http": ("server", "from windlass.drivers import open_driver; open_driver('http://127.0.0.1:1')"),
    "postgresql": ("postgres", "from windlass.drivers import open_driver; open_driver('postgresql://127.0.0.1:1/none')"),
    "traces": ("otel", "from windlass.telemetry.tracing import trace_jobs"),
    "sentry": ("sentry", "from windlass.telemetry.sentry import report_dead_jobs"),
    "django": ("django", "from windlass.django import app"),
    "keys": ("crypto", "Windlass('memory://', key_file=keys).task(lambda: None, name='nothing').enqueue_sync()"),
    "conformance": ("testing", "from windlass.testing.conformance import DriverConformance"),
    "model": ("testing", "from windlass.testing.model import differential"),
}
PROGRAM = """
import json, os, sys
for name in {absent!r}:
    sys.modules[name] = None  # as if it were not installed
from windlass import Windlass, WindlassError
from windlass.cli.session import Common
from windlass.sealing import new_line
common, told, keys = Common(store="memory://"), {{}}, "keys.txt"
with open(os.open(keys, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
    file.write(new_line("one"))
for name, program in {programs!r}.items():
    try:
        exec(program)
    except WindlassError as error:
        told[name] = str(error)
json.dump(told, sys.stdout)
"""
ABSENT = (
    "starlette", "jinja2", "uvicorn", "httpx2", "psycopg", "opentelemetry", "sentry_sdk", "django", "cryptography",
    "pytest", "hypothesis",
)  # fmt: skip


def test_what_is_missing_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    text = PROGRAM.format(absent=ABSENT, programs={name: program for name, (_, program) in ASKED.items()})
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.keys() == ASKED.keys()
    assert {name: said for name, said in told.items() if f"pip install 'windlass[{ASKED[name][0]}]'" not in said} == {}
