"""What about a store, and about the settings of whoever asks, lets in people who should stay out; with what to type next.

It only reads, and shows no secret. What cannot be told from here is left out, never guessed: who may come to a dashboard
that another program mounts is for that program to say.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from windlass.admin import process_list
from windlass.admin.tokens import TokenView, listed
from windlass.admin.views import Check, Diagnosis
from windlass.client import Client
from windlass.clock import SECOND, instant
from windlass.config import NONE, Settings, pieces
from windlass.core.queries import AllWebhooks
from windlass.errors import StoreForbidden, WindlassError
from windlass.records import Webhook
from windlass.runlogs import root_of
from windlass.types import Micros
from windlass.urls import is_loopback, redacted, scheme_of
from windlass.wording import in_words

DAY: Final = 86_400 * SECOND
OLD: Final = 365 * DAY  # a token that was made so long ago should be made anew
UNUSED: Final = 90 * DAY
POWERFUL: Final = frozenset({"admin", "operate", "work", "read:payload"})
NEVER_CALLED: Final = tuple(map(ip_network, ("127.0.0.0/8", "169.254.0.0/16", "::1/128", "fe80::/10")))


async def examine(client: Client) -> Diagnosis:
    checks = [*_way(client.url)]
    try:
        exposure = getattr(client.driver, "exposure", None)  # beyond the contract: a store in memory has nobody else
        checks += [Check(f.name, f.status, f.text, f.command) for f in (await exposure() if exposure is not None else ())]
        if scheme_of(client.url) not in ("http", "https"):  # of a served store, who serves it is to look
            checks += await _stored(client)
    except WindlassError as error:
        checks.append(Check("store", "problem", str(error)))
    settings = client.settings
    checks += [*_networks(settings), *_keys(settings), *_logs(settings, client.url)]
    checks += await asyncio.to_thread(process_list.checks)
    return Diagnosis(tuple(checks))


async def _stored(client: Client) -> list[Check]:
    """A role that may not read tokens or webhooks is told nothing of them."""
    found: list[Check] = []
    with suppress(StoreForbidden):
        found += _tokens((await listed(client)).tokens, client.now())
    with suppress(StoreForbidden):
        found += _webhooks(await client.driver.read(AllWebhooks()))
    return found


def _way(url: str) -> Iterator[Check]:
    if scheme_of(url) != "http":
        return
    if is_loopback(urlsplit(url).hostname or ""):
        yield Check("way to the server", "ok", "does not leave this machine")
    else:
        yield Check(
            "way to the server", "problem", f"{redacted(url)}: the token and all jobs travel unencrypted",
            "--store https://…, and windlass serve --tls-cert FILE --tls-key FILE there",
        )  # fmt: skip


def _tokens(tokens: tuple[TokenView, ...], now: Micros) -> Iterator[Check]:
    good = [token for token in tokens if token.state == "good"]
    if not any(token.state != "revoked" for token in tokens):
        yield Check(
            "tokens", "warning", "there is none: windlass serve and windlass dev let in every user of this machine",
            "windlass tokens create NAME --scope admin --expires-in 90d",
        )  # fmt: skip
        return
    worrying = [(token, why) for token in good if (why := _worry(token, now)) is not None]
    for token, why in worrying:
        yield Check("tokens", "warning", f"{token.name!r} ({', '.join(token.scopes)}) {why}",
                    f"windlass tokens create … --expires-in 90d, then windlass tokens revoke {token.id}")  # fmt: skip
    if not worrying:
        yield Check("tokens", "ok", f"{len(good):,} let somebody in; none is old, forgotten or for ever")


def _worry(token: TokenView, now: Micros) -> str | None:
    age = now - instant(token.created_at)
    idle = now - instant(token.last_used_at or token.created_at)
    if token.expires_at is None and POWERFUL.intersection(token.scopes):
        return "never expires"
    if age > OLD:
        return f"was made {in_words(age)} ago"
    return f"was not used for {in_words(idle)}" if idle > UNUSED else None


def _webhooks(hooks: list[Webhook]) -> Iterator[Check]:
    plain = [hook for hook in hooks if hook.enabled and hook.url.lower().startswith("http:")]
    for hook in plain:
        yield Check(
            "webhooks", "warning", f"{hook.webhook_id} gets its messages by plain http: they can be read on "
            "the way", f"windlass webhooks update {hook.webhook_id} --url https://…",
        )  # fmt: skip
    if hooks and not plain:
        yield Check("webhooks", "ok", "all are called by https")


def _networks(settings: Settings) -> Iterator[Check]:
    """What the operator opened for webhooks beyond the public internet."""
    for part in pieces(settings.webhook_networks):
        network = ip_network(part)
        inside = [str(one) for one in NEVER_CALLED if one.version == network.version and network.overlaps(one)]
        if inside:
            yield Check(
                "webhook networks", "problem", f"{part} holds {', '.join(inside)}: whoever may make a webhook reaches "
                "services of this machine, or the credentials of a cloud", "WINDLASS_WEBHOOK_NETWORKS of receivers alone",
            )  # fmt: skip


def _keys(settings: Settings) -> Iterator[Check]:
    if settings.key_file == NONE:
        yield Check(
            "encryption", "ok", "is off: whoever can read the store can read payloads; windlass keys add turns it on"
        )
        return
    path = Path(settings.key_file)
    try:
        mode, around = (stat.S_IMODE(os.stat(one).st_mode) for one in (path, path.resolve().parent))
    except OSError as error:
        yield Check("encryption", "problem", f"{path} cannot be read: {error.strerror}", f"ls -l {shlex.quote(str(path))}")
        return
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        yield Check(
            "encryption", "problem" if mode & stat.S_IRWXO else "warning", f"the key ring {path} (mode {mode:03o}) is open "
            "to others", f"chmod 600 {shlex.quote(str(path))}",
        )  # fmt: skip
    elif around & stat.S_IWOTH and not around & stat.S_ISVTX:
        yield Check("encryption", "problem", f"everybody may replace the key ring {path}",
                    f"chmod o-w {shlex.quote(str(path.resolve().parent))}")  # fmt: skip
    else:
        yield Check("encryption", "ok", f"the key ring {path} is for its owner alone")


def _logs(settings: Settings, url: str) -> Iterator[Check]:
    root = root_of(settings, url)
    if root is None or not root.is_dir():
        return
    mode = stat.S_IMODE(os.stat(root).st_mode)
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        yield Check("run logs", "problem", f"everybody may write to {root}", f"chmod o-w {shlex.quote(str(root))}")
