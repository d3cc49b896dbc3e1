"""Built and installed once, whichever process of the run asks first."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from installed.environments import Built, Installed, build, install


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "installed"
    place.mkdir(exist_ok=True)
    return place


@contextmanager
def once(place: Path) -> Iterator[bool]:
    """Whether it is still to be made; nobody else makes it meanwhile."""
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = place.with_suffix(".done")
        yield not done.exists()
        done.touch()


@pytest.fixture(scope="session")
def built(shared: Path) -> Built:
    with once(shared / "dist") as new:
        if new:
            return build(shared / "dist")
    return Built(*(shared / "dist").glob("*.whl"), *(shared / "dist").glob("*.tar.gz"))


@pytest.fixture(scope="session")
def everything(shared: Path, built: Built) -> Installed:
    """The wheel with the extra `all`."""
    with once(shared / "all") as new:
        if new:
            install(built.wheel, shared / "all", extra="all")
    return Installed(shared / "all")
