"""What must not be shown is not: rules for values and texts, and `Secret[...]` from the signature to the handler."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postgres.calling import Lag, timed
from windlass import Secret, Windlass, redaction
from windlass.codec import Arguments, Results
from windlass.errors import InvalidInput, Undecodable
from windlass.principal import new_token
from windlass.redaction import (
    DEEPEST,
    MANY,
    MARK,
    WHOLE_RESULT,
    Scrubber,
    is_telling,
    redact,
    redact_text,
    scrubber_of,
    secret_names,
)

# ------------------------------------------------------------------------------------------------------------------ names


@pytest.mark.parametrize(
    "name",
    "password Password userPassword db_passwd PGPASSWORD_pwd secret client_secret clientSecret token accessToken "
    "API_KEY apiKey api-key x-api-key Authorization Cookie set-cookie private_key aws.secret.key session_id sessionId "
    "credentials passphrase JWT card_number databaseUrl dsn".split(),
)  # fmt: skip
def test_telling_names_are_known_by_their_words(name: str) -> None:
    assert is_telling(name)


@pytest.mark.parametrize(
    "name",
    "name secretary tokenizer keyboard monkey key author authored passenger compass session cookies_policy_x".split(),
)
def test_names_that_only_look_alike_are_not(name: str) -> None:
    assert is_telling(name) == (name == "cookies_policy_x")


# ----------------------------------------------------------------------------------------------------------------- values


def test_values_under_telling_names_are_hidden_at_any_depth() -> None:
    data = {"user": "ada", "auth": [{"password": "hunter2", "n": 1}], "deep": {"api_key": {"a": ["b"]}}}
    assert redact(data) == {"user": "ada", "auth": [{"password": "***", "n": 1}], "deep": {"api_key": "***"}}
    assert data["auth"] == [{"password": "hunter2", "n": 1}], "what was given is not changed"


def test_names_of_a_task_are_hidden_too_and_only_these_when_telling_names_may_be_seen() -> None:
    data = {"iban": "DE1", "Iban": "DE2", "password": "x", "note": "password=x"}
    assert redact(data, ("IBAN",)) == {"iban": "***", "Iban": "***", "password": "***", "note": "password=***"}
    assert redact(data, ("iban",), telling=False) == {"iban": "***", "Iban": "***", "password": "x", "note": "password=x"}


def test_nothing_and_counts_are_not_hidden() -> None:
    data = {"password": None, "secret": "", "max_tokens": 4096, "tokens": ["a"], "n": 2**70, "x": 1.5}
    assert redact(data) == {**data, "tokens": "***"}


def test_what_is_too_deep_is_hidden_as_a_whole() -> None:
    data: object = "password=hunter2"
    for _ in range(DEEPEST + 5):
        data = [data]
    assert "hunter2" not in str(redact(data))


# ------------------------------------------------------------------------------------------------------------------ texts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ada:hunter2@db/x failed", "postgresql://ada:***@db/x failed"),
        ("redis://:hunter2@h:1", "redis://:***@h:1"),
        ("password=hunter2&x=1", "password=***&x=1"),
        ("{'password': 'hunter2', 'a': 1}", "{'password': ***, 'a': 1}"),
        ('{"apiKey": "hunter2 and more"}', '{"apiKey": ***}'),
        ("Authorization: Bearer abcdefghij.klm", "Authorization: Bearer ***"),
        ("Authorization: Basic aHVudGVyMg==", "Authorization: Basic ***"),
        ("client_secret = hunter2, x", "client_secret = ***, x"),
        ("access_token: hunter2", "access_token: ***"),
        ("Unexpected token: }", "Unexpected token: }"),
        ("the secret life of https://example.com/a:b", "the secret life of https://example.com/a:b"),
        ('{"password": "hunter2 and mo', '{"password": ***'),  # cut off
        ("{'api_key': 'hunter2\\", "{'api_key': ***"),
        ("private_key='" + "hunter2 " * 400 + "' x", "private_key=*** x"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "***"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out_of_texts(text: str, shown: str) -> None:
    assert redact_text(text) == shown


def test_our_own_tokens_are_taken_out_of_texts() -> None:
    assert redact_text(f"401 for {new_token()}!") == "401 for ***!"


@pytest.mark.timeout(20)
def test_a_long_text_takes_no_long_time() -> None:
    """Milliseconds each. A search that begins anew at each character would take minutes."""
    for piece in ("a.", "password", "x://", "token ", "=" * 3, "Bearer ", "'"):
        redact_text(piece * 20_000)


def test_hidden_values_are_found_in_every_spelling() -> None:
    secret = 'hün"ter\n2'  # noqa: S105
    scrub = scrubber_of(
        msgspec.json.encode({"password": secret, "user": "ada", "nested": {"iban": "DE99"}}), {MARK: "iban"}
    )
    for text in (
        f"no {secret} here",
        f"no {secret!r} here",
        "h%C3%BCn%22ter%0A2",
        '{"x": "h\\u00fcn\\"ter\\n2"}',
        "of DE99",
    ):
        assert "ter" not in scrub(text).replace("here", "")
        assert "DE99" not in scrub(text)
    assert scrub("ada is known") == "ada is known"
    assert scrub.output("\xff h\xfc".encode("latin-1")) == "\xff h\xfc".encode("latin-1")
    assert b"DE99" not in scrub.output(b"\xff DE99")


def test_a_value_of_few_characters_is_not_looked_for() -> None:
    assert Scrubber(["abc"])("abcdef") == "abcdef"
    assert scrubber_of(b"no json", None)("x") == "x"


# ----------------------------------------------------------------------------------------------------------------- Secret


def test_a_secret_is_used_and_never_shown() -> None:
    secret = Secret("hunter2")
    assert secret.reveal() == "hunter2"
    assert "hunter2" not in f"{secret} {secret!r} {secret:>20} {[secret]} { ({'p': secret}) }" + "%s %r" % (secret, secret)  # noqa: UP031
    assert secret == Secret("hunter2") != Secret("other")
    assert secret != "hunter2"  # noqa: S105
    assert len({secret, Secret("hunter2")}) == 1
    assert copy.deepcopy({"a": secret}) == {"a": secret}
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret)


@dataclass
class Login:
    user: str
    password: Secret[str]


def test_a_secret_argument_reaches_the_handler_as_a_secret() -> None:
    def task(key: Secret[str], login: Login, *, pins: list[Secret[int]], other: Secret[str] | None = None) -> None: ...

    arguments = Arguments(task, skip_context=False, task="task")
    given = (Secret("k"), Login("ada", Secret("hunter2")))
    payload = arguments.encode(given, {"pins": [Secret(1)]}, limit=1_000)
    assert msgspec.json.decode(payload) == {"key": "k", "login": {"user": "ada", "password": "hunter2"}, "pins": [1]}
    args, kwargs = arguments.decode(payload, "json")
    assert (args, kwargs) == (given, {"pins": [Secret(1)]})
    assert arguments.secrets == ("key", "other", "password", "pins")


def test_a_secret_of_the_wrong_kind_is_refused_without_being_told() -> None:
    def task(key: Secret[int]) -> None: ...

    arguments = Arguments(task, skip_context=False, task="task")
    with pytest.raises(InvalidInput) as refused:
        arguments.encode((Secret("hunter2"),), {}, limit=1_000)
    assert "hunter2" not in str(refused.value)
    assert refused.value.field == "key"
    with pytest.raises(Undecodable) as undecodable:
        arguments.decode(b'{"key": "hunter2"}', "json")
    assert "hunter2" not in str(undecodable.value)


def test_a_plain_value_is_not_taken_for_a_secret() -> None:
    """So that what is secret is written down where it is called."""

    def task(key: Secret[str]) -> None: ...

    with pytest.raises(InvalidInput, match="key"):
        Arguments(task, skip_context=False, task="task").encode(("hunter2",), {}, limit=1_000)


def test_a_secret_result_is_one_as_a_whole() -> None:
    def task() -> Secret[str]: ...  # type: ignore[empty-body]

    results = Results(task, task="task")
    assert results.secrets == (WHOLE_RESULT,)
    assert results.decode(results.encode(Secret("x"), limit=100)) == Secret("x")
    assert secret_names(int) == ()


# ------------------------------------------------------------------------------------------------------------- the task


def test_a_job_tells_what_its_task_keeps_secret() -> None:
    app = Windlass("memory://")

    @app.task(redact=("iban", "card"))
    async def pay(iban: str, key: Secret[str], note: str = "") -> Secret[str]: ...  # type: ignore[empty-body]

    @app.task
    async def plain(x: int) -> None: ...

    assert pay.job("DE1", Secret("k")).new.headers == {MARK: "$result,card,iban,key"}
    assert pay.using(headers={"trace": "1"}).job("DE1", Secret("k")).new.headers == {
        "trace": "1", MARK: "$result,card,iban,key",
    }  # fmt: skip
    assert plain.job(1).new.headers is None


@pytest.mark.parametrize("bad", ["iban", ("a,b",), ("",), (1,), 5])
def test_bad_names_are_refused(bad: object) -> None:
    with pytest.raises(InvalidInput, match="redact"):
        Windlass("memory://").task(redact=bad, name="x")(lambda x: None)  # type: ignore[call-overload]


def test_threads_that_begin_at_once_hide_alike() -> None:
    payload = msgspec.json.encode({"passwords": ["word-000007"], "others": [f"word-{n:06}" for n in range(50_000)]})
    scrub, together = scrubber_of(payload, None), threading.Barrier(4)

    def say(_: int) -> str:
        together.wait()
        return scrub.known("it was word-000007")

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(say, range(4))) == {"it was ***"}


def test_where_there_are_too_many_values_to_look_for_texts_are_hidden_as_a_whole() -> None:
    scrub = scrubber_of(msgspec.json.encode({"passwords": [f"word-{n:06}" for n in range(MANY + 1)]}), None)
    assert (scrub("it was word-000007"), scrub(""), scrub.output(b"word-000007 and more")) == ("***", "", b"***\n")
    assert scrub.data({"a": ["word-000007", 7, None]}) == {"a": ["***", 7, None]}


@pytest.mark.parametrize("text", ["a.-" * 80_000, "pwd='\\'" * 40_000, "a://" * 60_000, "Bearer " * 40_000])
def test_a_long_text_is_looked_through_in_a_time_by_its_length(text: str) -> None:
    began = time.thread_time()
    redact_text(text)
    assert time.thread_time() - began < 0.8


def test_the_beginnings_of_many_long_values_are_looked_for_in_a_time_by_their_length() -> None:
    values = [f"{n:04}-" + "".join(f"{n * 7 + place:06}" for place in range(4_000)) for n in range(60)]
    scrub = scrubber_of(msgspec.json.encode({"passwords": values}), None)
    assert scrub.unfinished(b"") == 0
    began = time.thread_time()
    for text, size in (("000999", 0), (values[7][:14], 14), (values[7][:9_000], 9_000), (values[7][1:], 0), ("0007-", 5)):
        assert scrub.unfinished(b"x" * 60_000 + text.encode()) == size
    assert time.thread_time() - began < 0.8


def test_everybody_else_goes_on_while_large_jobs_are_looked_through_for_secrets() -> None:
    app = Windlass("memory://")

    @app.task
    async def keep(rows: list[int]) -> str:
        return "kept"

    async def main() -> None:
        async with app:
            for _ in range(10):
                await keep.enqueue(list(range(140_000)))
            await app.tick()
            async with Lag() as lag:
                await asyncio.sleep(0.02)
                took, found = await timed(app.admin.jobs())
                await asyncio.sleep(0.02)
            assert [job.result for job in found.jobs] == ["kept"] * 10
            assert lag.longest < took / 3

    asyncio.run(main())


def test_what_is_large_is_left_out_of_lists_and_shown_with_its_job() -> None:
    app = Windlass("memory://")

    @app.task
    async def keep(text: str) -> str:
        return text

    async def main() -> None:
        async with app:
            small, large = await keep.enqueue("few words"), await keep.enqueue("word " * 4_000)
            await app.tick()
            views = {view.id: view for view in (await app.admin.jobs()).jobs}
            assert (views[small.id].payload, views[small.id].redacted) == ({"text": "few words"}, False)
            assert (views[large.id].payload, views[large.id].result, views[large.id].redacted) == ("***", "***", True)
            whole = (await app.admin.job(large.id)).job
            assert (whole.payload, whole.redacted) == ({"text": "word " * 4_000}, False)

    asyncio.run(main())


PIECES = [
    "Bearer", "BASIC", "bearer ", " abcdefgh12345678", "://", "user", ":", "@host", "wl_", "whsec_", "A" * 49, "a" * 20,
    "password", "PWD", "pa\u017f\u017fword", "to\u212aen", "=", "'", '"', " ", "api_key", "Secret", "x_token", "token",
    "cookie", "authorization", "\\", "ü", "\n",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@settings(max_examples=500, deadline=None)
def test_words_that_are_looked_for_first_hide_nothing_from_the_patterns(text: str) -> None:
    expected = text
    for _, pattern, instead in redaction._PATTERNS:
        expected = pattern.sub(instead, expected)
    assert redact_text(text) == expected
