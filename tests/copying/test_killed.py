"""Whenever a copier dies, the same command goes on, and nothing is lost or doubled."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from windlass import copying
from windlass.copying import Copy
from windlass.drivers.copying import End

from .ends import Place, Places, copier, digests, filled

DYING = Path(__file__).with_name("dying.py")
CALLS = ["drain", "receive", "move", "put", "go_on_after", "say", "open"]


class Died(BaseException):
    """Nothing is done about it, as by a process that was killed."""


def die(monkeypatch: pytest.MonkeyPatch, call: str, when: str, number: int) -> list[str]:
    real, met, died = getattr(End, call), [0], list[str]()

    def observed(self: End, *args: Any, **options: Any) -> Any:
        met[0] += 1
        doomed = met[0] == number
        if doomed and when == "before":
            died.append(call)
            raise Died
        answer = real(self, *args, **options)
        if doomed:
            died.append(call)
            raise Died
        return answer

    monkeypatch.setattr(End, call, observed)
    monkeypatch.setattr(Copy, "_leave", lambda self: None)
    monkeypatch.setattr(Copy, "_or_reopen", lambda self, begin: begin())
    return died


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", CALLS)
def test_a_copy_goes_on_from_wherever_it_died(
    places: Places, monkeypatch: pytest.MonkeyPatch, call: str, when: str
) -> None:
    source, target = places.new("sqlite"), places.new("sqlite")
    filled(source)
    monkeypatch.setattr(copying, "FIRST_PAGE", 5)
    monkeypatch.setattr(copying, "LARGEST_PAGE", 5)
    with source.end() as left, target.end() as right:
        before = digests(left)
        with monkeypatch.context() as dying:
            died = die(dying, call, when, 7 if call == "put" else 1)
            with pytest.raises(Died):
                copier(left, right).run()
            assert died == [call]
        report = copier(left, right).run()
        assert report.resumed == ((call, when) != ("drain", "before"))
        assert digests(right) == digests(left) == before
        assert left.last_numbers() == right.last_numbers()
        assert right.target_mark() is not None
        assert copier(left, right).run().moved_before


@pytest.mark.parametrize(
    ("call", "when"), [("drain", "before"), ("drain", "after"), ("receive", "after"), ("move", "after"), ("put", "before")]
)
def test_a_copy_that_died_before_the_end_can_be_given_up(
    places: Places, monkeypatch: pytest.MonkeyPatch, call: str, when: str
) -> None:
    source, target = places.new("sqlite"), places.new("sqlite")
    filled(source)
    with source.end() as left, target.end() as right:
        before = digests(left)
        with monkeypatch.context() as dying:
            die(dying, call, when, 4 if call == "put" else 1)
            with pytest.raises(Died):
                copier(left, right).run()
        assert copier(left, right).give_up() == ((call, when) != ("drain", "before"))
        assert left.source_mark() is right.target_mark() is None
        assert right.filled() == []
        assert digests(left) == before
        copier(left, right).run()
        assert digests(right) == before


def arguments(place: Place) -> list[str]:
    return [place.url, place.options.get("schema", "")]


def dying(source: Place, target: Place, call: str, number: int = 1) -> int:
    command = [sys.executable, str(DYING), *arguments(source), *arguments(target), call, str(number)]
    return subprocess.run(command, timeout=120, check=False).returncode


@pytest.mark.parametrize(("here", "there"), [("sqlite", "postgres"), ("postgres", "sqlite")])
def test_kill_nine_in_the_middle_loses_nothing(places: Places, here: str, there: str) -> None:
    source, target = places.new(here), places.new(there)
    filled(source)
    with source.end() as left:
        before = digests(left)
    assert dying(source, target, "put:before", 8) == -signal.SIGKILL
    with source.end() as left, target.end() as right:
        mark = left.source_mark()
        assert mark is not None
        assert mark.phase == "moved"
        assert right.counts()["jobs"] < left.counts()["jobs"] or right.counts()["audit"] == 0, "it was in the middle"
        assert copier(left, right, owner=None).run().resumed, "who died on this machine is not waited for"
        assert digests(right) == before
