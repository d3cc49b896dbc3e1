"""Which server, database and schema, and how to get there. Shown to people without its password."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

import psycopg
from psycopg import conninfo, pq

from windlass.config import Migrate, Pooler, check_schema
from windlass.errors import InvalidInput, StoreUnavailable

__all__ = ["CONNECT_TIMEOUT", "Migrate", "Place", "Pooler"]

CONNECT_TIMEOUT: Final = 5
# A host that is gone is noticed within half a minute, also by a call that may take longer (seconds, milliseconds).
ALIVE: Final = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 25_000}
# An optimisation only: plans are pinned by the shape of the statements, and proved so without these. They keep a plan that
# was made for an empty table from being used on a full one. The server would go on planning a claim for the values at hand,
# which takes longer than executing it for a job: there is one plan for all values.
SWITCHES: Final = {
    "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}  # fmt: skip
LOCKS: Final = 0.9  # of the time of a call, in which a lock may be waited for
QUOTED: Final = re.compile(r'"[^"]*"')


class Place:
    def __init__(self, url: str, schema: str, pooler: Pooler, timeout: float) -> None:
        check_schema(schema)
        if pooler not in ("none", "transaction"):
            raise InvalidInput("pooler", f"must be 'none' or 'transaction', got {pooler!r}")
        self.schema: Final = schema
        self.pooled: Final = pooler == "transaction"
        self.timeout: Final = timeout
        self._given: Final = _taken_apart(url)
        self._texts: dict[str, str] = {}

    @classmethod
    def of(
        cls, url: str, *, schema: str = "windlass", pooler: Pooler = "none", timeout: float = 10.0, **_: object
    ) -> Place:
        """By a driver's options; those that are not about the place are left alone."""
        return cls(url, schema, pooler, timeout)

    def __str__(self) -> str:
        return f"{self.url} (schema {self.schema})"

    @property
    def url(self) -> str:
        """Where libpq will go, without a password."""
        hosts, ports = self._asked("host").split(","), self._asked("port").split(",")
        if hosts[0].startswith("/"):  # a directory, with the server's socket in it
            return f"postgresql://{self.user}@/{self.database}?host={hosts[0]}&port={ports[0]}"
        where = ",".join(f"{host or 'localhost'}:{ports[n % len(ports)]}" for n, host in enumerate(hosts))
        return f"postgresql://{self.user}@{where}/{self.database}"

    @property
    def user(self) -> str:
        return self._asked("user")

    @property
    def database(self) -> str:
        return self._asked("dbname") or self.user

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self._asked("host").split(","))

    @property
    def probe(self) -> str:
        """What to type to see whether the first of its servers runs."""
        host, port = self.hosts[0] or "localhost", self._asked("port").split(",")[0]
        return f"pg_isready -h {shlex.quote(host)} -p {port}"

    @property
    def sslmode(self) -> str:
        return self._asked("sslmode")

    def _asked(self, name: str) -> str:
        """What libpq will use: the URL's, else the environment's (PGHOST, PGUSER, …), else its own default."""
        given = self._given.get(name)
        return str(given if given else _defaults().get(name, ""))

    @property
    def channel(self) -> str:
        return f"windlass_{self.schema}"

    @property
    def lock_timeout(self) -> float:
        """Over a little before the call is, so that who waits for somebody's lock is told of that, and not that the server
        does not answer."""
        return self.timeout * LOCKS

    def parameters(self, *, switches: bool = False, plain: bool = False) -> dict[str, Any]:
        """What to connect with. Behind a pooler nothing is said that belongs to a session, nor with `plain`."""
        given: dict[str, Any] = {
            "connect_timeout": CONNECT_TIMEOUT, "application_name": "windlass", "client_encoding": "utf8", **ALIVE,
            **self._given,
        }  # fmt: skip
        if not (self.pooled or plain):
            milliseconds = int(self.timeout * 1000)
            settings = {
                "timezone": "UTC", "default_transaction_isolation": r"read\ committed",
                "statement_timeout": milliseconds, "lock_timeout": int(self.lock_timeout * 1000),
                "idle_in_transaction_session_timeout": milliseconds, **(SWITCHES if switches else {}),
            }  # fmt: skip
            own = " ".join(f"-c {name}={value}" for name, value in settings.items())
            given["options"] = f"{own} {given.get('options') or ''}".strip()
        return given

    def text(self, sql: str) -> str:
        """A statement with this schema's name in it: quoted, for a schema may be called `user` or `order`."""
        if self.schema == "windlass":
            return sql
        text = self._texts.get(sql)
        if text is None:
            if len(self._texts) > 1_000:  # listings are built at run time, so their number has no bound
                self._texts.clear()
            text = self._texts[sql] = sql.replace("windlass.", f'"{self.schema}".')
        return text


def _defaults() -> dict[str, str]:
    options = pq.Conninfo.get_defaults()
    return {option.keyword.decode(): option.val.decode() for option in options if option.val is not None}


def _taken_apart(url: str) -> dict[str, Any]:
    scheme, colon, rest = url.partition(":")
    try:
        given = conninfo.conninfo_to_dict(f"{scheme.lower()}{colon}{rest}")
    except (psycopg.Error, UnicodeError) as error:  # what it quotes may be half of a password
        raise _malformed(QUOTED.sub('"…"', str(error).strip().split("\n", 1)[0])) from None
    if not all(port == "" or port.isdecimal() for port in str(given.get("port", "")).split(",")):
        raise _malformed("the port is no number")
    if "@" in str(given.get("dbname", "")):
        raise _malformed("there is an @ behind the first /")
    if any("@" in host[1:] for host in str(given.get("host", "")).split(",")):  # it may begin with one: an abstract socket
        raise _malformed("there is more than one @")
    return given


def _malformed(why: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"this is not a PostgreSQL URL ({why}); write postgresql://user:password@host:5432/database, "
        "with special characters of a password as %40 for @, %2F for /, %3A for :, %25 for %"
    )
