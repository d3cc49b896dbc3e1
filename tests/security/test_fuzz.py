"""Whatever is said where something is read: it is understood, or refused as bad input. Never another error, never for long.

`make test` tries a few hundred of each, the same ones every time; with WINDLASS_FUZZ=N, or marked `full`, others and more.
"""

from __future__ import annotations

import asyncio
import os
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass import Secret, Windlass
from windlass.admin import Filter
from windlass.admin.listing import Cursor, digest_of, opened, text_of
from windlass.codec import Arguments, Results
from windlass.config import NAMES, Settings, settings_from
from windlass.core.cron import check_rule, check_zone, times_after, times_until
from windlass.core.listing import Direction
from windlass.errors import InvalidInput, Undecodable, WindlassError
from windlass.sealing import ring_of
from windlass.urls import redacted

LONGER = int(os.environ.get("WINDLASS_FUZZ", "5000"))
PATIENCE = 5.0  # seconds of processor time for one question: what is much quicker has no business near it

Case = Callable[..., None]


def fuzzed(few: int, **said: st.SearchStrategy[Any]) -> Callable[[Case], Case]:
    """The same test twice: a few cases that never change, and, marked `full`, many that do."""

    def decorate(case: Case) -> Case:
        def run(much: bool) -> None:
            @settings(
                max_examples=LONGER if much else few,
                derandomize=not much,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(**said)
            def tried(**values: Any) -> None:
                case(**values)

            tried()

        both = [pytest.param(False, id="few"), pytest.param(True, id="many", marks=pytest.mark.full)]
        run.__name__, run.__doc__ = case.__name__, case.__doc__
        return pytest.mark.parametrize("much", both)(run)

    return decorate


# --------------------------------------------------------------------------------------------------------------- decoder


@dataclass
class Item:
    name: str
    price: float
    at: datetime
    tags: list[str]


def order(
    item: Item, count: int = 1, *, note: str | None = None, key: Secret[str] | None = None, **more: int
) -> list[Item]:
    raise NotImplementedError


ARGUMENTS, RESULTS = Arguments(order, skip_context=False, task="order"), Results(order, task="order")
ITEM = {"name": "x", "price": 1.5, "at": "2030-01-01T00:00:00Z", "tags": []}
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([ITEM, "*" * 70, 2**70]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*ITEM, "item", "count", "note", "key", "z"]), inner)
    ),
    max_leaves=6,
)
payloads = st.one_of(
    st.binary(max_size=60),
    st.dictionaries(st.sampled_from(["item", "count", "note", "key", "more", "z"]), json_values, max_size=4).map(
        msgspec.json.encode
    ),
    st.builds(
        lambda cut, flip: _damaged(msgspec.json.encode({"item": ITEM, "count": 2}), cut, flip),
        st.integers(0, 99),
        st.binary(max_size=3),
    ),
    st.integers(1, 3_000).map(lambda deep: b'{"item":' * deep),
)


def _damaged(whole: bytes, cut: int, flip: bytes) -> bytes:
    return whole[:cut] + flip + whole[cut + len(flip) :]


@fuzzed(200, payload=payloads, codec=st.sampled_from(["json", "json", "json", "none", "aes256gcm", "pickle", ""]))
def test_stored_bytes_are_arguments_or_undecodable(payload: bytes, codec: str) -> None:
    try:
        args, kwargs = ARGUMENTS.decode(payload, codec)
    except Undecodable:
        return
    assert isinstance(args[0], Item)
    assert type(kwargs.get("key", Secret(""))) in (Secret, type(None))


@fuzzed(150, stored=payloads)
def test_stored_bytes_are_a_result_or_undecodable(stored: bytes) -> None:
    try:
        assert all(isinstance(item, Item) for item in RESULTS.decode(stored) or ())
    except Undecodable:
        return


# ------------------------------------------------------------------------------------------------------------------ cron

TOKENS = (
    "* 0 59 23 31 29 30 2 12 7 L LW W MON FRI#5 5L / - , */7 1-5 60 99 MON-FRI JAN # @daily @every every 1s 15m ? -1 "
    "１ ٣ 1e400s nan 99999999999999999999s 0-59/59 5-1 */0 1/1"
).split()
SOUND = "* 0 1-5 */7 29 30 31 2 L LW MON#5 5L 59 0,30 */2 1/3".split()
rules = st.one_of(
    st.lists(st.sampled_from(SOUND), min_size=5, max_size=6).map(" ".join),
    st.lists(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=3).map("".join), min_size=1, max_size=7).map(" ".join),
    st.text(max_size=30),
)
ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Monrovia")


@fuzzed(150, rule=rules, zone=st.sampled_from(ZONES), at=st.integers(0, 7_000 * 365 * 86_400 * 10**6))
def test_a_rule_is_refused_or_has_times_in_order(rule: str, zone: str, at: int) -> None:
    began = time.thread_time()
    try:
        kept = check_rule(rule)
    except InvalidInput:
        return
    finally:
        assert time.thread_time() - began < PATIENCE
    assert check_rule(kept) == kept
    after, until = (_first(times, 4) for times in (times_after(kept, zone, at), times_until(kept, zone, at)))
    assert after == sorted(set(after))
    assert until == sorted(set(until), reverse=True)
    assert all(one > at for one in after)
    assert all(one <= at for one in until)
    assert time.thread_time() - began < PATIENCE


def _first(times: Any, count: int) -> list[int]:
    return [at for _, at in zip(range(count), times, strict=False)]


@fuzzed(
    40,
    name=st.one_of(
        st.text(max_size=40), st.sampled_from(["../../etc/passwd", "/etc/passwd", "UTC/../UTC", "posix", "a\0b", "."])
    ),
)
def test_a_zone_is_one_that_is_known_or_refused(name: str) -> None:
    try:
        check_zone(name)
    except InvalidInput:
        return
    assert ".." not in name


# --------------------------------------------------------------------------------------------------------------- cursors

WAYS: tuple[Direction, ...] = ("newest", "oldest")
PARTS = st.one_of(
    st.just(digest_of(Filter(), "newest")),
    st.booleans(),
    st.none(),
    st.integers(-(2**63), 2**64 - 1),
    st.text(max_size=3),
    st.floats(),
)
cursors = st.one_of(
    st.text(max_size=40),
    st.binary(max_size=30).map(lambda raw: urlsafe_b64encode(raw).decode().rstrip("=")),
    st.lists(PARTS, max_size=5).map(lambda parts: urlsafe_b64encode(msgspec.msgpack.encode(parts)).decode()),
    st.builds(
        lambda at, seq: text_of(Cursor(digest_of(Filter(), "newest"), False, at, seq)),
        st.none() | st.integers(-(2**62), 2**62),
        st.integers(-5, 2**63),
    ),
    st.integers(1, 400).map(lambda deep: urlsafe_b64encode(b"\x91" * deep).decode()),
)


@fuzzed(250, text=cursors, way=st.sampled_from(WAYS))
def test_a_cursor_is_one_of_its_listing_or_refused(text: str, way: Direction) -> None:
    try:
        found = opened(text, Filter(), way)
    except InvalidInput:
        return
    assert way == "newest"
    assert 0 <= found.seq < 2**63


# --------------------------------------------------------------------------------------------------------------- filters

words = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["dead", "queued", "%", "_", "\\", "'", "x" * 2_000, "\0", "\ud800", "a\u0301", "default"]),
)
moments = st.one_of(
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12)), None])),
    st.sampled_from(
        [
            datetime.min.replace(tzinfo=UTC),
            datetime.max.replace(tzinfo=UTC),
            datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
        ]
    ),
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(
        (
            "state",
            "label",
            "system",
            "queue",
            "type",
            "org_id",
            "tag",
            "group_id",
            "schedule",
            "worker_id",
            "error",
            "fingerprint",
        ),
        words,
    ),
    **dict.fromkeys(("created_from", "created_until", "finished_from", "finished_until"), moments),
    **dict.fromkeys(("ids", "queues"), st.lists(words, max_size=3).map(tuple)),
    "older_than": st.integers(),
}
wishes = st.lists(st.sampled_from(sorted(FIELDS)), max_size=2, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: FIELDS[name] for name in names})
)


def test_every_field_of_a_filter_is_fuzzed() -> None:
    assert FIELDS.keys() == set(Filter.__struct_fields__)


def asked(app: Windlass, wish: dict[str, Any], how: str, cursor: str | None) -> None:
    async def ask() -> None:
        if how == "jobs":
            await app.admin.jobs(Filter(**wish), cursor=cursor)
        elif how == "failures":
            await app.admin.failures("1h", Filter(**wish))
        else:
            await getattr(app.admin, how)(Filter(**wish))

    try:
        asyncio.run(ask())
    except WindlassError as error:
        assert isinstance(error, InvalidInput) or type(error).__name__ == "UnknownQueue", repr(error)


IN_MEMORY = Windlass("memory://")


@pytest.mark.parametrize("name", ["created_until", "finished_until"])
def test_a_page_up_to_the_end_of_the_calendar_has_a_next_one(name: str) -> None:
    async def story() -> None:
        async with Windlass("memory://") as app:
            add = app.task(_nothing)
            for job in [await add.enqueue() for _ in range(3)]:
                await job.cancel()
            last: Any = datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))
            page = await app.admin.jobs(Filter(**{name: last}), limit=2)
            assert page.cursor is not None
            assert len((await app.admin.jobs(Filter(**{name: last}), limit=2, cursor=page.cursor)).jobs) == 1

    asyncio.run(story())


async def _nothing() -> None: ...


def test_a_filter_with_an_endless_number_is_refused_also_behind_a_cursor() -> None:
    cursor = text_of(Cursor(digest_of(Filter(), "newest"), False, None, 1))
    with pytest.raises(InvalidInput, match=r"^older_than: "):
        asyncio.run(IN_MEMORY.admin.jobs(Filter(older_than=2**64), cursor=cursor))


@fuzzed(
    150,
    wish=wishes,
    how=st.sampled_from(["jobs", "jobs", "matching", "errors", "failures"]),
    cursor=st.none() | st.just(text_of(Cursor(digest_of(Filter(), "newest"), False, None, 1))),
)
def test_a_filter_is_answered_or_refused(wish: dict[str, Any], how: str, cursor: str | None) -> None:
    asked(IN_MEMORY, wish, how, cursor)


# ---------------------------------------------------------------------------------------------------------------- config

texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "none",
            "auto",
            "0",
            "-1",
            "1e9",
            "nan",
            "inf",
            "1s",
            "9" * 5_000,
            "１２",
            "1_000",
            "10.0.0.0/8",
            "::/0",
            "443,",
            "pg_x",
            "1e400s",
            "'; drop schema x;--",
            "P1D",
            "1h30m",
            "-5s",
            "\0",
            "\ud800",
            "0x10",
        ]
    ),
)
values = st.one_of(
    texts,
    st.integers(),
    st.floats(),
    st.none(),
    st.booleans(),
    st.binary(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.timedeltas(),
)


@fuzzed(
    120,
    given_=st.dictionaries(st.sampled_from([*NAMES, "leese", ""]), values, max_size=2),
    environment=st.dictionaries(st.sampled_from([f"WINDLASS_{name.upper()}" for name in NAMES]), texts, max_size=2),
)
def test_settings_are_taken_or_refused(given_: dict[str, Any], environment: dict[str, str]) -> None:
    try:
        assert isinstance(settings_from(given_, environment), Settings)
    except InvalidInput as error:
        token = given_.get("token", environment.get("WINDLASS_TOKEN"))
        assert error.field != "token" or not isinstance(token, str) or len(token) < 8 or token not in str(error)


@fuzzed(
    100,
    lines=st.lists(
        st.one_of(st.text(max_size=60), st.sampled_from(["a " + "A" * 43 + "=", "a b c", "# x", "ä AAAA"])), max_size=4
    ),
)
def test_a_key_ring_is_read_or_refused(lines: list[str]) -> None:
    file = f"/dev/shm/windlass-{os.getpid()}.keys" if os.path.isdir("/dev/shm") else f"/tmp/windlass-{os.getpid()}.keys"  # noqa: S108
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as ring:
        ring.write("\n".join(lines).encode("utf-8", "surrogatepass"))
    try:
        ring_of(file)
    except InvalidInput as error:
        assert "AAAAAAAA" not in str(error), "no key is told"
    finally:
        os.unlink(file)


@fuzzed(
    150,
    scheme=st.sampled_from(["postgresql", "postgres", "https", "POSTGRESQL"]),
    user=st.text(max_size=5).filter(lambda text: ":" not in text),
    rest=st.text(max_size=10),
)
def test_a_password_is_not_in_what_is_shown_of_a_url(scheme: str, user: str, rest: str) -> None:
    if any(letter in user for letter in "/?#"):
        return
    assert "kanarie" not in redacted(f"{scheme}://{user}:kanarie{rest}@host/db")
