"""Lines of the audit log: values → statements."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.core.queries import AuditPage
from windlass.drivers.ops.dialect import Dialect
from windlass.drivers.statement import Op, Row, Statement
from windlass.records import AuditEntry, AuditLine


def note(db: Dialect, lines: Iterable[AuditLine]) -> Op[None]:
    for line in lines:
        yield db.sql.add_audit(
            at=line.at, actor=line.actor, action=line.action, subject=line.subject, detail=line.detail,
            org_id=line.org_id, selection=line.selection, count=line.count,
        )  # fmt: skip


def page(db: Dialect, asked: AuditPage) -> Statement:
    return db.sql.audit_page(
        before=asked.before, after=asked.after, since=asked.since, actor=asked.actor, action=asked.action,
        subject=asked.subject, org_id=asked.org_id, limit=asked.limit,
    )  # fmt: skip


def entry_in(row: Row) -> AuditEntry:
    return AuditEntry(row[0], AuditLine(**dict(zip(AuditLine.__struct_fields__, row[1:], strict=True))))
