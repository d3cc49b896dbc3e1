"""Which server, database and schema, and how to get there. Shown to people without its password."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

import psycopg
from psycopg import conninfo

from windlass.errors import InvalidInput, StoreUnavailable

Pooler = Literal["none", "transaction"]

SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,40}")
CONNECT_TIMEOUT: Final = 5
# An optimisation only: plans are pinned by the shape of the statements, and proved so without these. They keep a plan that
# was made for an empty table from being used on a full one.
SWITCHES: Final = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off"}


class Place:
    def __init__(self, url: str, schema: str, pooler: Pooler, timeout: float) -> None:
        if not SCHEMA.fullmatch(str(schema)):
            raise InvalidInput("schema", f"must be a plain lower-case name of at most 41 letters, got {schema!r}")
        if pooler not in ("none", "transaction"):
            raise InvalidInput("pooler", f"must be 'none' or 'transaction', got {pooler!r}")
        self.schema: Final = schema
        self.pooled: Final = pooler == "transaction"
        self.timeout: Final = timeout
        try:
            self._given: Final[dict[str, Any]] = conninfo.conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            raise StoreUnavailable(f"this is not a PostgreSQL URL: {str(error).strip()}") from None
        self._texts: dict[str, str] = {}

    def __str__(self) -> str:
        given = self._given
        host = given.get("host") or "localhost"
        port = given.get("port") or 5432
        database = given.get("dbname") or given.get("user") or ""
        return f"postgresql://{host}:{port}/{database} (schema {self.schema})"

    @property
    def channel(self) -> str:
        return f"windlass_{self.schema}"

    def parameters(self, *, switches: bool = False, plain: bool = False) -> dict[str, Any]:
        """What to connect with. Behind a pooler nothing is said that belongs to a session, nor with `plain`."""
        given: dict[str, Any] = {
            "connect_timeout": CONNECT_TIMEOUT, "application_name": "windlass", "client_encoding": "utf8", **self._given
        }  # fmt: skip
        if not (self.pooled or plain):
            milliseconds = int(self.timeout * 1000)
            settings = {
                "timezone": "UTC", "statement_timeout": milliseconds, "lock_timeout": milliseconds,
                "idle_in_transaction_session_timeout": 10 * milliseconds, **(SWITCHES if switches else {}),
            }  # fmt: skip
            own = " ".join(f"-c {name}={value}" for name, value in settings.items())
            given["options"] = f"{own} {given.get('options') or ''}".strip()
        return given

    def text(self, sql: str) -> str:
        """A statement with this schema's name in it."""
        if self.schema == "windlass":
            return sql
        text = self._texts.get(sql)
        if text is None:
            if len(self._texts) > 1_000:  # listings are built at run time, so their number has no bound
                self._texts.clear()
            text = self._texts[sql] = sql.replace("windlass.", f"{self.schema}.")
        return text
