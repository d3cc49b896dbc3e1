"""`windlass tokens …`: let programs in over HTTP, see who was let in, shut them out."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from windlass.admin.tokens import TokenView
from windlass.cli.output import Part
from windlass.cli.session import Common, Flag, epilogue, opened
from windlass.principal import SCOPES
from windlass.wording import relative

app = App(name="tokens", help="Tokens for the HTTP API and the dashboard: make them, list them, revoke them.")
STYLES = {"good": "green", "expired": "yellow", "revoked": "red"}


@app.command(name="list", help_epilogue=epilogue("windlass tokens list", "windlass tokens list --all --json"))
async def list_tokens(*, all: Flag = False, common: Common = Common()) -> None:  # noqa: A002
    """Who may come in, with what, and when each was used last.

    Args:
        all: also those that were revoked
    """
    async with opened(common) as admin:
        found = await admin.tokens()
    shown = [token for token in found.tokens if all or token.state != "revoked"]
    if common.json:
        common.out.emit(at=found.at, tokens=shown)
    elif not shown:
        common.out.note("there is no token; windlass tokens create NAME --scope read makes one")
    else:
        rows: list[tuple[Part, ...]] = [
            (
                token.id, token.name, (token.state, STYLES[token.state]), ",".join(token.scopes), *_bounds(token),
                "never" if token.last_used_at is None else relative(token.last_used_at, found.at),
                "never" if token.expires_at is None else relative(token.expires_at, found.at),
            )
            for token in shown
        ]  # fmt: skip
        common.out.table(("ID", "NAME", "STATE", "SCOPES", "ORG", "QUEUES", "LAST USED", "EXPIRES"), rows)


def _bounds(token: TokenView) -> tuple[str, str]:
    return token.org_id or "all", "all" if token.queues is None else ",".join(token.queues)


@app.command(
    help_epilogue=epilogue(
        "windlass tokens create grafana --scope read --expires-in 90d",
        "windlass tokens create shop --scope enqueue --org acme --queue mail",
        "windlass tokens create ada --scope operate --scope read:payload",
    )
)
async def create(
    name: str,
    /,
    *,
    scope: Annotated[tuple[str, ...], Parameter(help=f"what it may do: {', '.join(SCOPES)}", negative=())],
    org: Annotated[str | None, Parameter(help="bind it to the jobs of this organisation")] = None,
    queue: Annotated[tuple[str, ...], Parameter(help="bind it to this queue, and others given so", negative=())] = (),
    expires_in: Annotated[str | None, Parameter(help="how long it is good, such as 90d; else until it is revoked")] = None,
    common: Common = Common(),
) -> None:  # fmt: skip
    """Make a token, and print its secret: this once, since only a hash of it is stored.

    enqueue stores jobs. read looks at everything but what jobs carry; read:payload shows that, too. work lets a
    remote worker take jobs. operate changes jobs and queues, and reads. admin does all of it, and makes tokens.

    Args:
        name: what it is for: the audit log says token:NAME
    """
    async with opened(common, create=True) as admin:
        token, secret = await admin.create_token(name, scope, org, queue or None, expires_in)
    if common.json:
        common.out.emit(token=token, secret=secret)
    else:
        common.out.line(secret)
        common.out.note(f"{name} ({token.id}) may {', '.join(token.scopes)}. This secret is not shown again; keep it safe.")


@app.command(help_epilogue=epilogue("windlass tokens revoke grafana"))
async def revoke(token: str, /, *, common: Common = Common()) -> None:
    """Shut a token out, at once and for good.

    Args:
        token: its name or id
    """
    async with opened(common) as admin:
        view = await admin.revoke_token(token)
    if common.json:
        common.out.emit(token=view)
    else:
        common.out.line(f"{view.name} is revoked")
