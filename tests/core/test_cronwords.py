"""Rules in plain words."""

from __future__ import annotations

import pytest

from windlass.core.cronwords import in_plain_words, on_the_wall
from windlass.errors import InvalidInput


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("* * * * *", "Every minute"), ("*/5 * * * *", "Every fifth minute of every hour"),
        ("0 * * * *", "At the start of every hour"), ("30 2 * * *", "At 02:30 every day"),
        ("0 9 * * MON-FRI", "At 09:00 on Monday through Friday"), ("0 9 * * mon-fri", "At 09:00 on Monday through Friday"),
        ("0 0 1,15 * *", "At 00:00 on the first and the 15th day of month"),
        ("0 0 L * *", "At 00:00 on the last day of every month"),
        ("0 0 * * 5L", "At 00:00 on the last Friday of the month"),
        ("0 0 LW * *", "At 00:00 on the last weekday of every month"),
        ("0 0 * * MON#2", "At 00:00 on the second Monday of the month"), ("0 0 29 2 *", "At 00:00 on February 29"),
        ("0 30 2 * * *", "At 02:30 every day"), ("*/10 * * * * *", "Every 10th second of every minute"),
        ("15,45 9,17 * JAN,JUL *", "At 09:15, 09:45, 17:15, and 17:45 every day in January and July"),
        ("0 0 13 * 5", "At 00:00 on the 13th day of month and on Friday"), ("@daily", "At 00:00 every day"),
        ("@hourly", "At the start of every hour"), ("@weekly", "At 00:00 on Sunday"),
    ],
)  # fmt: skip
def test_a_rule_says_what_it_does(rule: str, words: str) -> None:
    assert in_plain_words(rule) == f"{words}, UTC"
    assert in_plain_words(rule, "Asia/Tokyo") == f"{words}, by the clocks of Asia/Tokyo"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("every 15m", "Every 15 minutes"), ("every 1h", "Every hour"), ("every 1d", "Every day"),
        ("every 90s", "Every 1 minute and 30 seconds"), ("every 2h1m5s", "Every 2 hours, 1 minute and 5 seconds"),
        ("@every 1500ms", "Every 1 second and 0.5 seconds"), ("every 1s", "Every second"),
        ("every 1d1h", "Every 1 day and 1 hour"),
    ],
)  # fmt: skip
def test_an_interval_says_how_long(rule: str, words: str) -> None:
    assert in_plain_words(rule, "Asia/Tokyo") == words


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("30 2 * * *", "fixed times"),
        ("*/5 * * * *", "a rhythm"),
        ("0 * * * *", "a rhythm"),
        ("*/5 2 * * *", "a rhythm"),
        ("every 5m", "real time"),
    ],
)
def test_a_rule_says_what_clocks_do_to_it(rule: str, said: str) -> None:
    assert said in on_the_wall(rule)


def test_what_is_no_rule_has_no_words() -> None:
    with pytest.raises(InvalidInput):
        in_plain_words("0 0 30 2 *")
    with pytest.raises(InvalidInput):
        in_plain_words("0 0 1 * *", "Nowhere")
