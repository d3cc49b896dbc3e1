"""What a user does in the first minutes, done with an installed wheel."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from installed.environments import ROOT, Installed

STATIC = ROOT / "src" / "windlass" / "web" / "static"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}


def begin_a_project(installed: Installed, directory: Path) -> None:
    """`windlass init`, and all that it says to type next."""
    told = json.loads(installed.windlass("init", "--json", cwd=directory))
    assert {Path(path).name for path in told["written"]} == {"tasks.py", "test_tasks.py", "README.md", ".gitignore"}
    assert told["next"][-2:] == ["python -m pytest", "windlass dev tasks"]
    said = [installed.typed(step, directory) for step in told["next"][:-1]]
    assert "succeeded 1" in said[1]
    assert "succeeded" in said[2]
    assert "3 passed" in said[3]


@contextmanager
def serving(installed: Installed, directory: Path, *words: str) -> Iterator[str]:
    """The address, while it is served; it ends well when it is asked to."""
    with (directory / "served.txt").open("w") as said:
        process = subprocess.Popen(
            [installed.command, *words, "--port", "0"], cwd=directory, env=installed.environment, stdout=subprocess.PIPE,
            stderr=said, text=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip().rstrip("/")
            assert address.startswith("http://127.0.0.1:"), (directory / "served.txt").read_text()
            yield address
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, (directory / "served.txt").read_text()
        finally:
            process.kill()
            process.communicate()


def fetched(url: str, body: object = None) -> tuple[str, str]:
    """Type and text of the answer."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"Content-Type": "application/json"})  # noqa: S310  # our own server
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310  # the same
        return answer.headers.get_content_type(), answer.read().decode()


def look_at_the_dashboard(address: str) -> None:
    kind, page = fetched(f"{address}/")
    assert kind == "text/html"
    assert "Windlass" in page
    named = {urljoin(f"{address}/", path) for path in re.findall(r'(?:href|src)="([^"]*static/[^"]+)"', page)}
    assert {Path(urlsplit(url).path).suffix for url in named} >= {".css", ".js", ".svg"}
    shipped = {f"{address}/static/{asset.relative_to(STATIC)}" for asset in STATIC.rglob("*") if asset.is_file()}
    for url in named | shipped:
        kind, text = fetched(url)
        assert (kind, len(text) > 0) == (TYPES[Path(urlsplit(url).path).suffix], True), url


def develop(installed: Installed, directory: Path) -> None:
    """`windlass dev`: there is a dashboard, and a job that comes in is run."""
    with serving(installed, directory, "dev", "tasks") as address:
        look_at_the_dashboard(address)
        stored = json.loads(fetched(f"{address}/api/jobs", {"type": "hello", "payload": {"name": "Ada"}})[1])
        deadline = time.monotonic() + 60
        while json.loads(fetched(f"{address}/api/jobs/{stored['job_id']}")[1])["job"]["label"] != "succeeded":
            assert time.monotonic() < deadline, (directory / "served.txt").read_text()
            time.sleep(0.1)
