"""`windlass webhooks`: what it does, says and refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cli.conftest import Cli

MADE = ("webhooks", "create", "https://webhooks.invalid/hook", "--events", "job.dead", "queue.unhealthy")


@pytest.fixture
def made(cli: Cli, enqueue: Callable[..., str]) -> Any:
    enqueue("hello", "name=ada")  # so that there is a store
    done = cli(*MADE, "--json")
    assert done.code == 0, done.err
    return done.json


def test_a_webhook_is_made_and_its_secret_shown_once(cli: Cli, made: Any) -> None:
    assert made["secret"].startswith("whsec_")
    webhook_id = made["webhook"]["webhook_id"]
    for command in (("list",), ("show", webhook_id)):
        done = cli("webhooks", *command)
        assert done.code == 0
        assert webhook_id in done.out
        assert made["secret"] not in done.out
        assert made["secret"] not in cli("webhooks", *command, "--json").out
    assert f"ends in {made['secret'][-4:]}" in cli("webhooks", "show", webhook_id).out


def test_nobody_subscribed_says_how_to(cli: Cli, enqueue: Callable[..., str]) -> None:
    enqueue("hello", "name=ada")
    assert "windlass webhooks create" in cli("webhooks", "list").err


def test_a_webhook_is_changed_rotated_and_deleted(cli: Cli, made: Any) -> None:
    webhook_id = made["webhook"]["webhook_id"]
    changed = cli("webhooks", "update", webhook_id, "--events", "job.cancelled", "--json").json
    assert (changed["events"], changed["url"]) == (["job.cancelled"], "https://webhooks.invalid/hook")
    assert cli("webhooks", "disable", webhook_id).out == f"{webhook_id} is off\n"
    assert cli("webhooks", "enable", webhook_id).out == f"{webhook_id} is on\n"
    rotated = cli("webhooks", "rotate", webhook_id, "--keep", "1h", "--json").json
    assert rotated["secret"] != made["secret"]
    assert rotated["webhook"]["old_secret_until"]
    assert cli("webhooks", "delete", webhook_id).out == f"{webhook_id} is deleted\n"
    gone = cli("webhooks", "show", webhook_id)
    assert (gone.code, "windlass webhooks list" in gone.err) == (1, True)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("https://169.254.169.254/x", "--events", "job.dead"), "not of the public internet"),
        (("https://2852039166/", "--events", "job.dead"), "not of the public internet"),
        (("http://127.0.0.1:8000/", "--events", "job.dead"), "webhook_networks"),
        (("example.com", "--events", "job.dead"), "https://example.com/hook"),
        (("https://webhooks.invalid/", "--events", "job.died"), "did you mean 'job.dead'"),
        (("https://webhooks.invalid/",), "--events job.dead"),
    ],
)
def test_a_bad_webhook_is_a_usage_error(cli: Cli, made: Any, typed: tuple[str, ...], said: str) -> None:
    done = cli("webhooks", "create", *typed)
    assert done.code == 2
    assert said in done.err
    assert len(cli("webhooks", "list", "--json").json["webhooks"]) == 1


def test_a_test_message_that_fails_says_why(cli: Cli, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens there, and nobody has to: what is refused is told without a connection."""
    monkeypatch.setenv("WINDLASS_WEBHOOK_NETWORKS", "127.0.0.0/8")
    moved = cli("webhooks", "create", "http://127.0.0.1:9/", "--events", "job.dead", "--json").json["webhook"]
    monkeypatch.delenv("WINDLASS_WEBHOOK_NETWORKS")
    done = cli("webhooks", "test", moved["webhook_id"])
    assert (done.code, "not of the public internet" in done.out) == (1, True)
    listed = cli("webhooks", "deliveries", moved["webhook_id"], "--json").json["deliveries"]
    assert [(row["event"], row["status"], row["attempts"]) for row in listed] == [("webhook.ping", "failed", 1)]
    assert cli("webhooks", "replay", listed[0]["id"]).out == "1 message will be sent once more\n"
    assert cli("webhooks", "replay", moved["webhook_id"], "--failed").out == "0 messages will be sent once more\n"
    unknown = cli("webhooks", "replay", "wh_x_7")
    assert (unknown.code, "there is no message" in unknown.err) == (1, True)


def test_nothing_was_sent_says_how_to_try(cli: Cli, made: Any) -> None:
    assert "windlass webhooks test" in cli("webhooks", "deliveries", made["webhook"]["webhook_id"]).err
