"""What a connection keeps between statements, and what it must not."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from windlass.drivers.postgres import PostgresDriver
from windlass.drivers.postgres.arrays import Texts
from windlass.drivers.postgres.link import BEGIN, FEW, MOST_CURSORS, ROLLBACK, Link
from windlass.drivers.statement import Statement

PID = Statement("select pg_backend_pid()", ())


@pytest.fixture
def link(driver: PostgresDriver) -> Iterator[Link]:
    link = Link(driver.place)
    yield link
    link.close()


def series(of: int) -> Statement:
    return Statement("select n from generate_series(1::bigint, $1::bigint) as n", (of,))


def test_what_was_said_before_is_said_by_the_same_cursor_with_other_values(link: Link) -> None:
    asked = "select $1::bigint + 1"
    assert link.execute(Statement(asked, (1,))) == [(2,)]
    [cursor] = link._cursors.values()
    assert link.execute(Statement(asked, (2,))) == [(3,)]
    assert list(link._cursors.values()) == [cursor]


def test_a_long_answer_is_not_kept(link: Link) -> None:
    assert len(link.execute(series(FEW))) == FEW
    assert len(link._cursors) == 1
    assert len(link.execute(series(FEW + 1))) == FEW + 1
    assert not link._cursors


def test_on_a_session_that_others_change_nothing_is_remembered(driver: PostgresDriver) -> None:
    """A cursor knows how texts are written, and whoever shares the session may say that they are written otherwise."""
    link = Link(driver.place, plain=True)
    try:
        asked = Statement("select octet_length($1::text)", ("é",))
        before = link.execute(asked)
        link.execute(Statement("set client_encoding to latin1", ()))
        assert link.execute(asked) == before
    finally:
        link.close()


def test_values_of_another_kind_may_follow(link: Link) -> None:
    either = "select coalesce($1::text, 'nothing'), $2::text[]"
    assert link.execute(Statement(either, (None, Texts([])))) == [("nothing", [])]
    assert link.execute(Statement(either, ("a", Texts(["b", "c"])))) == [("a", ["b", "c"])]
    assert link.execute(Statement(either, (None, None))) == [("nothing", None)]


def test_a_statement_that_failed_can_be_said_again(link: Link) -> None:
    half = "select 1 / $1::bigint"
    assert link.execute(Statement(half, (1,))) == [(1,)]
    with pytest.raises(psycopg.errors.DivisionByZero):
        link.execute(Statement(half, (0,)))
    assert link.execute(Statement(half, (1,))) == [(1,)]


def test_a_new_connection_is_not_asked_by_a_cursor_of_the_old_one(link: Link) -> None:
    before = link.execute(PID)
    link.close()
    assert link.execute(PID) != before


def test_statements_that_are_made_at_run_time_fill_no_memory(link: Link) -> None:
    for number in range(MOST_CURSORS + 5):
        link.execute(Statement(f"select {number}", ()))
    assert len(link._cursors) == MOST_CURSORS


def test_rows_without_columns_are_rows(link: Link) -> None:
    assert link.execute(Statement("select from generate_series(1, 3)", ())) == [()] * 3
    assert link.execute(Statement("set application_name to 'windlass'", ())) == []


# ---------------------------------------------------------------------------- what is said, and nobody waits for the answer


@pytest.mark.parametrize("before", ["nothing", "the same", "a rollback"])
def test_words_that_nobody_waits_for_arrive_although_the_connection_is_not_used_again(
    driver: PostgresDriver, link: Link, before: str
) -> None:
    """Whatever the library has prepared by then, or has forgotten."""
    words = Statement("select pg_notify('links', $1)", ("news",))
    other = Link(driver.place)
    with other.open() as listening:
        link.open()
        if before != "nothing":
            link.execute(words)
        if before == "a rollback":
            link.execute(BEGIN)
            link.execute(ROLLBACK)
        listening.execute("listen links")
        link.speak(words)
        assert [message.payload for message in listening.notifies(timeout=10, stop_after=1)] == ["news"]


def test_the_answer_to_such_words_is_not_taken_for_that_to_the_next_statement(link: Link) -> None:
    link.open()
    for number in range(3):
        link.speak(Statement("select 'parting', $1::bigint", (number,)))
        assert link.execute(series(2)) == [(1,), (2,)]
        link.speak(Statement("select 1 / 0", ()))
        exchange = link.exchange(series(2))
        assert link.connection is not None
        link.connection.wait(exchange.steps)
        assert exchange.rows() == [(1,), (2,)]


def test_words_on_a_connection_that_broke_are_lost_with_it(link: Link) -> None:
    before = link.execute(PID)
    link.speak(Statement("select pg_terminate_backend(pg_backend_pid())", ()))
    assert link.execute(PID) != before


def test_a_flight_behind_words_whose_answer_does_not_come_has_stored_nothing(link: Link) -> None:
    """It was not even sent, and whoever asked is not told that nobody knows."""
    link.open()
    link.speak(Statement("select pg_terminate_backend(pg_backend_pid())", ()))
    link.storing = True
    exchange = link.exchange(series(1))
    assert link.connection is not None
    with pytest.raises(psycopg.OperationalError):
        link.connection.wait(exchange.steps)
    assert not link.storing
