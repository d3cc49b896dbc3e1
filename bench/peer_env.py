"""Throw-away environments with other queues in them, so that Windlass never depends on what it is compared with.

    python bench/peer_env.py --peer-env DIR [huey] [pgqueuer] ...     make them, each in DIR/NAME; none named: all

The standard library only: it runs before there is anything else.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

INSTALL_S: Final = 180.0
PYTHON_VERSIONS: Final = """
import sqlite3, sys
from importlib.metadata import version
told = " with ".join(f"{name} {version(name)}" for name in sys.argv[2:])
print(f"{sys.argv[1]} {told.split(' ', 1)[1]}" + (f", its SQLite {sqlite3.sqlite_version}" if "huey" in sys.argv else ""))
"""
NODE_VERSIONS: Final = """
const { version } = require(process.argv[1] + "/node_modules/" + process.argv[3] + "/package.json");
console.log(process.argv[2] + " " + version + " on Node " + process.versions.node);
"""


@dataclass(frozen=True)
class Peer:
    title: str
    packages: tuple[str, ...]  # as they are installed; the first is the queue itself
    told: tuple[str, ...]  # whose versions are told
    node: bool = False


PEERS: Final = {
    "huey": Peer("Huey", ("huey",), ("huey",)),
    "pgqueuer": Peer("PgQueuer", ("pgqueuer[asyncpg]", "uvloop"), ("pgqueuer", "asyncpg", "uvloop")),
    "procrastinate": Peer("Procrastinate", ("procrastinate", "psycopg[binary,pool]"), ("procrastinate", "psycopg")),
    "graphile": Peer("Graphile Worker", ("graphile-worker",), ("graphile-worker",), node=True),
}


class PeerMissing(SystemExit):
    """Ends a benchmark before it has measured anything, with words."""

    def __init__(self, peer: Peer, environment: Path, why: str) -> None:
        wanted = " ".join(peer.packages)
        by_hand = f"`npm install --prefix DIR {wanted}`" if peer.node else (
            f"`uv venv DIR && uv pip install --python DIR/bin/python {wanted}`"
        )  # fmt: skip
        super().__init__(
            f"{peer.title} cannot be had in {environment}: {why}\nName an environment that has it (--peer-env DIR, made by "
            f"{by_hand}), or leave --peers out."
        )


def interpreter(environment: Path) -> Path:
    return environment / "bin" / "python"


def versions(environment: Path, name: str) -> str | None:
    """None: there is no such environment, or not the queue in it."""
    peer = PEERS[name]
    if peer.node:
        command = ["node", "-e", NODE_VERSIONS, str(environment), peer.title, *peer.told]
    elif interpreter(environment).exists():
        command = [str(interpreter(environment)), "-c", PYTHON_VERSIONS, peer.title, *peer.told]
    else:
        return None
    try:
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None


def prepare(environment: Path, name: str) -> str:
    """Make the environment unless it is there; answers the versions in it."""
    found = versions(environment, name)
    if found is None:
        install(environment, PEERS[name])
        found = versions(environment, name)
    if found is None:
        raise PeerMissing(PEERS[name], environment, "it was installed and cannot be imported")
    return found


def install(environment: Path, peer: Peer) -> None:
    if peer.node:
        npm = shutil.which("npm")
        if npm is None:
            raise PeerMissing(peer, environment, "there is no npm to install it with")
        environment.mkdir(parents=True, exist_ok=True)
        run(peer, environment, [npm, "install", "--prefix", str(environment), "--no-fund", "--no-audit", *peer.packages])
        return
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(__file__).parents[1] / ".uv" / "bin"))
    if uv is None:
        raise PeerMissing(peer, environment, "there is no uv to install it with; `make` puts one into .uv/bin")
    if not interpreter(environment).exists():
        run(peer, environment, [uv, "venv", "--python", sys.executable, str(environment)])
    run(peer, environment, [uv, "pip", "install", "--python", str(interpreter(environment)), *peer.packages])


def run(peer: Peer, environment: Path, command: list[str]) -> None:
    step = f"{Path(command[0]).name} {command[1]}"
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_S, check=False,
            env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PeerMissing(peer, environment, f"{step} took longer than {INSTALL_S:g} s") from None
    if done.returncode:
        raise PeerMissing(peer, environment, f"{step} says: {done.stderr.strip()}")


def enter(environment: Path, name: str) -> None:
    """Go on as the environment's own interpreter."""
    if Path(sys.prefix).resolve() != environment.resolve():
        prepare(environment, name)
        python = str(interpreter(environment))
        os.execv(python, [python, *sys.argv])  # noqa: S606


def main() -> int:
    """All that were asked for are tried, whatever becomes of the others."""
    parser = argparse.ArgumentParser(description="Make environments with other queues, outside of this repository.")
    parser.add_argument("queues", nargs="*", metavar="NAME", help=f"{', '.join(PEERS)} (default: all)")
    parser.add_argument("--peer-env", type=Path, required=True, metavar="DIR", help="where; kept")
    options = parser.parse_args()
    unknown = [name for name in options.queues if name not in PEERS]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; known: {', '.join(PEERS)}")
    missing = 0
    for name in options.queues or PEERS:
        try:
            print(prepare(options.peer_env.resolve() / name, name))
        except PeerMissing as error:
            print(error, file=sys.stderr)
            missing += 1
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
