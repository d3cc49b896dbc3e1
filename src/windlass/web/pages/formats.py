"""Times, spans and numbers as the pages write them. The script of the pages ticks with the same rules."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, Final
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

NB: Final = "\u00a0"  # a number never parts from its unit
NONE: Final = "–"
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SIZES: Final = ("bytes", "kB", "MB", "GB", "TB")
_JOB_ID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")


def span(seconds: float, *, brief: bool = False) -> str:
    """`44 s`, `6 min 12 s`, `18 min`, `3 h`: a second unit only under ten minutes, where it matters."""
    whole = round(abs(seconds))
    for place, (size, unit) in enumerate(_UNITS):
        if whole >= size:
            head, rest = f"{whole // size}{NB}{unit}", whole % size
            two = rest and not brief and 60 <= whole < 600
            return f"{head} {rest // _UNITS[place + 1][0]}{NB}{_UNITS[place + 1][1]}" if two else head
    return f"0{NB}s"


def relative(at: datetime, now: datetime) -> str:
    apart = (at - now).total_seconds()
    if abs(apart) < 1.5:
        return "now"
    return f"in {span(apart)}" if apart > 0 else f"{span(apart, brief=True)} ago"


def duration(seconds: float | None) -> str:
    """`184 ms`, `2.6 s`, `31 s`, `6 min 12 s`."""
    if seconds is None:
        return NONE
    if seconds < 0.9995:
        return f"{seconds * 1000:{'.0f' if seconds >= 0.0995 else '.3g'}}{NB}ms" if seconds else f"0{NB}s"
    return f"{seconds:.1f}{NB}s".replace(f".0{NB}", NB) if seconds < 10 else span(seconds)


def number(value: float | None) -> str:
    if value is None:
        return NONE
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}".removesuffix(".0")


def rate(per_second: float | None) -> str:
    if per_second is None:
        return NONE
    if 0 < per_second < 0.05:
        return f"{per_second * 60:.2g}/min"
    return f"{per_second:,.0f}/s" if per_second >= 10 else f"{per_second:.1f}/s".replace(".0/", "/")


def rate_set(per_second: float) -> str:
    """`10/m`: as people set it, and may set it again."""
    for seconds, unit in ((1, "s"), (60, "m"), (3_600, "h"), (86_400, "d")):
        count = round(per_second * seconds, 9)
        if count == int(count) != 0:
            return f"{int(count)}/{unit}"
    return f"{per_second:.9f}/s" if per_second >= 0.001 else f"{per_second * 86_400:.9f}/d"


def percent(share: float | None) -> str:
    if share is None:
        return NONE
    value = share * 100
    return f"{value:.0f}%" if value >= 10 or value == 0 else f"{value:.1f}%".replace(".0%", "%")


def size(count: int | None) -> str:
    """`412 bytes`, `1.4 MB`."""
    if count is None:
        return NONE
    if count < 1000:
        return f"{count}{NB}bytes"
    step = min(int(math.log(count, 1000)), len(_SIZES) - 1)
    return f"{count / 1000**step:.3g}{NB}{_SIZES[step]}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 job`, `4 jobs`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def is_job_id(value: str) -> bool:
    return _JOB_ID.fullmatch(value) is not None


def short_id(value: str) -> str:
    """Its ends. Ids of one moment begin alike, and their ends are random."""
    return value if len(value) <= 20 else f"{value[:8]}…{value[-8:]}"


def id_cut(value: str) -> Markup:
    """The same for people, who find all of it where they point."""
    return Markup('<span title="{}">{}</span>').format(value, short_id(value))


def part(value: str) -> str:
    """A name as one part of a path: also a slash in it is quoted, and a name of dots goes nowhere."""
    return quote(value, safe="") if value.strip(".") else quote(value, safe="").replace(".", "%2E")


def query(pairs: Mapping[str, Any]) -> str:
    """`?a=1&b=2` of what is there; nothing of nothing."""
    said = {name: value for name, value in pairs.items() if value not in (None, "", ())}
    return f"?{urlencode(said, doseq=True)}" if said else ""


def slug(value: str) -> str:
    """What may be an id in a page, different for different names."""
    return value if _NAME.fullmatch(value) else f"x{hashlib.sha256(value.encode('utf-8', 'replace')).hexdigest()[:12]}"


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text[-1:] in ('.', '?', '…', '') else '.'}"


def headline(text: str) -> str:
    """The first clause of a sentence."""
    return sentence(re.split(r": |; ", text, maxsplit=1)[0])


@pass_context
def linked(context: Context, text: str) -> Markup:
    """Ids of jobs become links to them, and short."""
    parts = _JOB_ID.split(text)
    ids = iter(_JOB_ID.findall(text))
    made = escape(parts[0])
    for rest in parts[1:]:
        found = next(ids)
        made += (
            Markup('<a class="link mono" href="{}">{}</a>').format(context["url"](f"/jobs/{found}"), id_cut(found)) + rest
        )
    return made


def pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Names as choices that say what they are."""
    return [(name, name) for name in names]


def zone_name(zone: tzinfo) -> str:
    return zone.key if isinstance(zone, ZoneInfo) else str(zone)


def absolute(at: datetime, zone: tzinfo) -> str:
    """`Fri 27 Mar 2026, 14:25:56 UTC`."""
    return f"{at.astimezone(zone):%a %-d %b %Y, %H:%M:%S} {zone_name(zone)}"


def _time(at: datetime, text: str, title: str | None, kind: str = "") -> Markup:
    rel = Markup(' data-rel="{}"').format(kind) if kind else Markup("")
    told = Markup(' title="{}"').format(title) if title else Markup("")
    at = at.astimezone(UTC)  # whatever clock it was told by: the script of the page ticks by this
    return Markup('<time datetime="{}"{}{}>{}</time>').format(f"{at:%Y-%m-%dT%H:%M:%S.%fZ}", rel, told, text)


@pass_context
def ago(context: Context, at: datetime | None) -> Markup:
    """`3 min ago`, `in 5 s`, which goes on ticking."""
    if at is None:
        return escape(NONE)
    return _time(at, relative(at, context["now"]), absolute(at, context["zone"]), "rel")


@pass_context
def age(context: Context, at: datetime | None) -> Markup:
    """How long since, or until, without saying which."""
    if at is None:
        return escape(NONE)
    return _time(at, span((at - context["now"]).total_seconds()), absolute(at, context["zone"]), "age")


@pass_context
def clock(context: Context, at: datetime | None) -> Markup:
    """`14:25:56`, with the day where it is another one."""
    if at is None:
        return escape(NONE)
    here, today = at.astimezone(context["zone"]), context["now"].astimezone(context["zone"])
    text = f"{here:%H:%M:%S}" if here.date() == today.date() else f"{here:%-d %b, %H:%M:%S}"
    return _time(at, text, absolute(at, context["zone"]))


@pass_context
def full(context: Context, at: datetime | None) -> Markup:
    """`27 Mar 2026, 14:25:56 UTC`."""
    if at is None:
        return escape(NONE)
    zone = context["zone"]
    return _time(at, f"{at.astimezone(zone):%-d %b %Y, %H:%M:%S} {zone_name(zone)}", None)


@pass_context
def hour_there(context: Context, at: datetime) -> str:
    """`01:30 UTC`: what the reader's clock says."""
    return f"{at.astimezone(context['zone']):%H:%M} {zone_name(context['zone'])}"


FILTERS: Final = {
    "ago": ago, "age": age, "clock": clock, "full": full, "hour_there": hour_there, "span": span, "duration": duration,
    "number": number,
    "rate": rate, "rate_set": rate_set, "percent": percent, "size": size, "short_id": short_id, "id_cut": id_cut,
    "part": part, "slug": slug, "query": query,
    "sentence": sentence, "zone_name": zone_name, "plural": plural, "pairs": pairs, "headline": headline, "linked": linked,
}  # fmt: skip
