"""When a schedule's times are: cron expressions in a time zone, and intervals. Pure: no clock is read.

Five fields are read as Debian's cron reads them, six begin with the seconds; names, lists, steps, `L`, `LW`, `5L` and
`MON#2` are known, and `@daily` with its kin. `every 15m` is an interval, counted from an anchor.

A rule that names its minutes and hours means the clock on the wall: a time that a spring night leaves out fires when that
gap ends, one that an autumn night has twice fires at its first. A rule with `*` among minutes or hours means a rhythm, and
goes through both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from windlass.clock import SECOND, duration, instant, moment
from windlass.errors import InvalidInput, shown
from windlass.types import Micros
from windlass.wording import plural
from windlass.words import did_you_mean

LONGEST: Final = 200  # of an expression
SHORTEST_EVERY: Final = SECOND
LONGEST_EVERY: Final = 366 * 86_400 * SECOND
DAY: Final = 86_400 * SECOND
FIRST_YEAR: Final = 1969  # on a wall west of Greenwich, when time begins
LAST_YEAR: Final = 9_000  # the end of what a calendar can say, and some room
END: Final = instant(datetime(LAST_YEAR, 1, 1, tzinfo=UTC))  # no rule has a time after it, whichever way one walks
ALIASES: Final = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip
_EVERY: Final = re.compile(r"@?every\s+(\S+)", re.IGNORECASE)
_FIELDS: Final = ("second", "minute", "hour", "day of month", "month", "day of week")
_MOST: Final = (59, 59, 23, 31, 12, 7)
_NAMES: Final = {name: n for n, name in enumerate("SUN MON TUE WED THU FRI SAT".split())} | {
    name: n for n, name in enumerate("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(), 1)
}  # fmt: skip
_RANGE: Final = re.compile(r"(?<![^,])(\w+)-(\w+)/(\d{1,10})(?![^,])", re.ASCII)
_STEP: Final = re.compile(r"/(\d{1,10})")
PROBE: Final = datetime(2024, 1, 1)  # noqa: DTZ001 - rules are tried by the wall


def check_rule(expression: object) -> str:
    """A rule that has times to come, as it is stored: spaces made one. `InvalidInput` names the field that is wrong."""
    if not isinstance(expression, str) or not expression.strip():
        raise InvalidInput(
            "cron", f"must be text such as '0 9 * * MON-FRI', '@daily' or 'every 15m', got {shown(expression)}"
        )
    text = " ".join(expression.split())
    if len(text) > LONGEST or not text.isprintable():
        raise InvalidInput("cron", f"must be printable text of at most {LONGEST} characters")
    if interval_of(text) is None:
        _probe(text)
    return text


def check_zone(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidInput("timezone", f"must be the name of a zone such as 'Europe/Berlin', got {shown(name)}")
    _zone(name)
    return name


def interval_of(text: str) -> Micros | None:
    """The pause of `every 15m`; None for a cron expression."""
    found = _EVERY.fullmatch(text)
    if found is None:
        return None
    every = duration(found[1], field="cron")
    if not SHORTEST_EVERY <= every <= LONGEST_EVERY:
        raise InvalidInput("cron", f"'every' takes between a second and a year, got {found[1]!r}")
    return every


def next_after(text: str, zone: str, after: Micros, anchor: Micros = 0) -> Micros | None:
    """The first time after an instant; None when the rule has no more."""
    return next(times_after(text, zone, after, anchor), None)


def times_after(text: str, zone: str, after: Micros, anchor: Micros = 0) -> Iterator[Micros]:
    """Every time after an instant, each later than the one before it."""
    every = interval_of(text)
    if every is not None:
        at = anchor + ((after - anchor) // every + 1) * every
        while at <= END:
            yield at
            at += every
        return
    for at in _walk(text, _zone(zone), after, reverse=False):
        if at > after:  # the second of two hours with one name, and the end of a gap, are met more than once
            after = at
            yield at


def times_until(text: str, zone: str, until: Micros, anchor: Micros = 0) -> Iterator[Micros]:
    """The same backwards: every time up to and including an instant, latest first."""
    every = interval_of(text)
    if every is not None:
        at = anchor + (min(until, END) - anchor) // every * every
        while at >= 0:
            yield at
            at -= every
        return
    before = until + 1
    for at in _walk(text, _zone(zone), until + SECOND, reverse=True):
        if at < -DAY:  # more than the wall goes back and forth by
            return
        if 0 <= at < before:
            before = at
            yield at


def due_times(text: str, zone: str, first: Micros, now: Micros, cap: int, anchor: Micros = 0) -> list[Micros]:
    """The latest `cap` times from `first` on and up to `now`, oldest first. What it costs does not depend on how many there
    are: a rule of every second in a store that slept for a year has millions."""
    if first > now:
        return []
    found = [first]
    for at in islice(times_after(text, zone, first, anchor), cap):
        if at > now:
            return found[-cap:]
        found.append(at)
    if len(found) <= cap:
        return found
    return list(islice(times_until(text, zone, now, anchor), cap))[::-1]


def fields_of(text: str) -> list[str]:
    """The fields of an expression, in capitals, aliases resolved: five, or six with the seconds first."""
    return [_RANGE.sub(_without_step, field) for field in _written(text)]


def _written(text: str) -> list[str]:
    return ALIASES.get(text.lower(), text).upper().split()


def _without_step(found: re.Match[str]) -> str:
    """A step within a range of one leads nowhere. The parser would take that one for the first of many."""
    first, last, step = found.groups()
    return f"{first}-{last}" if _number(first) == _number(last) and int(step) else found[0]


def _number(name: str) -> int:
    return int(name) if name.isdecimal() else _NAMES.get(name, -1)


@lru_cache(maxsize=1024)
def _probe(text: str) -> None:
    from cronsim import CronSim  # a program without schedules does without

    _check(text)
    if _next(CronSim(" ".join(fields_of(text)), PROBE)) is None:
        raise InvalidInput("cron", f"{text!r} names no day that ever comes")


@lru_cache(maxsize=1024)
def _check(text: str) -> None:
    """That it is an expression; not that it has any times."""
    from cronsim import CronSim, CronSimError

    fields = _written(text)
    if text.startswith("@") and text.lower() not in ALIASES:
        hint = did_you_mean(text, ALIASES)
        raise InvalidInput("cron", f"{text!r} is not known{hint}; use one of {', '.join(ALIASES)}, or 'every 15m'")
    if len(fields) not in (5, 6):
        raise InvalidInput(
            "cron", f"{text!r} has {plural(len(fields), 'field')}; five are minute, hour, day of month, month, "
            "day of week, and six begin with the second"
        )  # fmt: skip
    for name, most, value in zip(_FIELDS[-len(fields) :], _MOST[-len(fields) :], fields, strict=True):
        if any(int(step) > most for step in _STEP.findall(value)):
            raise InvalidInput("cron", f"{text!r}: the step of the {name} in {value!r} is longer than the field, {most}")
    try:
        CronSim(" ".join(fields_of(text)), PROBE)
    except (CronSimError, AssertionError, ValueError) as error:
        raise InvalidInput("cron", f"{text!r}: {_blamed(fields, str(error))}") from None


def _blamed(fields: list[str], said: str) -> str:
    """Which field it was, and what it holds."""
    for name, value in zip(_FIELDS[-len(fields) :], fields, strict=True):
        if said.lower().replace("-", " ").endswith(f"bad {name}"):
            if name == "day of month" and re.fullmatch(r"[\d,\-*/LW]+", value) and not re.search(r"\d{3}", value):
                return f"the day of month {value!r} does not come in the months that are named, or is no day"
            return f"{value!r} is no {name}"
    return "is not a cron expression"


@lru_cache(maxsize=1024)
def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        if len(name) > LONGEST or not name.isprintable() or name.startswith(("/", ".")):
            raise ValueError
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InvalidInput("timezone", _no_zone(name[:LONGEST])) from None


@lru_cache(maxsize=64)  # reading what zones there are takes long, and a schedule of an unknown one is looked at each second
def _no_zone(name: str) -> str:
    return f"{name!r} is no time zone{did_you_mean(name, available_timezones())}; write it as in 'Europe/Berlin'"


def _walk(text: str, zone: tzinfo, start: Micros, *, reverse: bool) -> Iterator[Micros]:
    """Times of a cron expression as they follow each other on the wall: not always in the order of time. A stored rule may
    be a hand's, or a newer version's: `InvalidInput` says what is wrong with it, as it did to whoever wrote it."""
    _check(text)
    fields = fields_of(text)
    rule, minute, hour = " ".join(fields), fields[-5], fields[-4]
    start = min(start, END + 2 * DAY)  # past the end on every wall, and with room for the hours that are added to it
    if zone is not UTC and (minute.startswith("*") or hour.startswith("*")):
        yield from _rhythm(rule, zone, start, reverse=reverse)
        return
    wall = moment(start).astimezone(zone).replace(tzinfo=None)
    if reverse and zone is not UTC:  # at the second of two hours with one name, times of the first are ahead on the wall
        wall += timedelta(hours=26)
    for at in _by_the_wall(rule, wall, reverse=reverse):
        yield instant(_on_the_wall(at, zone))


def _rhythm(rule: str, zone: tzinfo, start: Micros, *, reverse: bool) -> Iterator[Micros]:
    """Between two changes of the clocks the wall shows the time plus a constant: from one such stretch to the next."""
    at: Micros | None = start
    while at is not None:
        offset = _offset(zone, at)
        first = at != start and not reverse  # the instant at which a stretch begins is part of it
        wall = moment(at + offset - (SECOND if first else 0)).replace(tzinfo=None)
        here, at = at, None
        for seen in _by_the_wall(rule, wall, reverse=reverse):
            found = instant(seen.replace(tzinfo=UTC)) - offset
            change = _change(zone, here, found)
            if change is not None:
                at = change - 1 if reverse else change
                break
            here = found
            yield found


def _offset(zone: tzinfo, at: Micros) -> Micros:
    return (moment(at).astimezone(zone).utcoffset() or timedelta()) // timedelta(microseconds=1)


def _change(zone: tzinfo, here: Micros, there: Micros) -> Micros | None:
    """The instant of the first change of the clocks on the way, if there is one; they do not change twice a day."""
    offset, step = _offset(zone, here), DAY if there > here else -DAY
    while here != there:
        near = here + step if abs(there - here) > DAY else there
        if _offset(zone, near) != offset:
            same, other = here, near
            while abs(other - same) > 1:
                middle = (same + other) // 2
                same, other = (middle, other) if _offset(zone, middle) == offset else (same, middle)
            return max(same, other)
        here = near
    return None


def _by_the_wall(rule: str, wall: datetime, *, reverse: bool) -> Iterator[datetime]:
    from cronsim import CronSim

    if reverse:  # what is past the end is stepped over: it is where the walk forward ends
        wall = min(wall, datetime(LAST_YEAR, 1, 1))  # noqa: DTZ001 - as the wall shows it
    times = iter(CronSim(rule, wall, reverse=reverse))
    while (at := _next(times)) is not None:
        yield at


def _next(times: Iterator[datetime]) -> datetime | None:
    try:
        at = next(times, None)
    except (OverflowError, ValueError):  # the calendar has an end
        return None
    return None if at is None or not FIRST_YEAR <= at.year < LAST_YEAR else at


def _on_the_wall(at: datetime, zone: tzinfo) -> datetime:
    """The first instant at which the wall shows this time; where it never does, the end of the gap."""
    placed = at.replace(tzinfo=zone, fold=0)
    while placed.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != at:
        at = at.replace(second=0) + timedelta(minutes=1)
        placed = at.replace(tzinfo=zone, fold=0)
    return placed
