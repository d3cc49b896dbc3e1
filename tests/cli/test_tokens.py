"""`windlass tokens …`"""

from __future__ import annotations

from cli.conftest import Cli
from windlass.principal import looks_right


def test_a_token_is_made_listed_and_revoked(cli: Cli) -> None:
    done = cli("tokens", "create", "ci", "--scope", "read", "--scope", "operate", "--org", "acme", "--queue", "mail")
    assert (done.code, looks_right(done.out.strip())) == (0, True)
    assert "not shown again" in done.err
    listed = cli("tokens", "list")
    assert done.out.strip() not in listed.out
    assert [word in listed.out for word in ("ci", "good", "read,operate", "acme", "mail", "never")] == [True] * 6
    assert cli("tokens", "revoke", "ci").out == "ci is revoked\n"
    assert "no token" in cli("tokens", "list").err
    [token] = cli("tokens", "list", "--all", "--json").json["tokens"]
    assert (token["name"], token["state"]) == ("ci", "revoked")


def test_a_script_gets_the_secret_as_json(cli: Cli) -> None:
    made = cli("tokens", "create", "ci", "--scope", "admin", "--expires-in", "90d", "--json").json
    assert looks_right(made["secret"])
    assert made["token"]["expires_at"] is not None
    assert "secret" not in made["token"]


def test_what_is_wrong_with_a_token_is_said(cli: Cli) -> None:
    done = cli("tokens", "create", "ci", "--scope", "root")
    assert done.code == 2
    assert "scopes: must be one of" in done.err
    cli("tokens", "create", "deploy", "--scope", "read")
    assert cli("tokens", "create", "deploy", "--scope", "read").code == 3
    done = cli("tokens", "revoke", "deplox")
    assert (done.code, "did you mean" in done.err, "windlass tokens list" in done.err) == (1, True, True)
