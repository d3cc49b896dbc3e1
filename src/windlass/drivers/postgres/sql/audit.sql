-- The audit log. core/audit.py; column order: windlass.records.AuditLine.

-- name: add_audit
insert into windlass.audit (at, actor, action, subject, detail, org_id, selection, count)
values (windlass.at(:at), :actor, :action, :subject, :detail, :org_id, :selection, :count);

-- name: audit_log
select windlass.micros(at), actor, action, subject, detail, org_id, selection, count
  from windlass.audit where audit.at >= windlass.at(:since) order by audit_id;

-- name: audit_page
-- Along the numbers, from the newest.
select audit_id, windlass.micros(at), actor, action, subject, detail, org_id, selection, count from windlass.audit
 where (:before::bigint is null or audit_id < :before::bigint) and audit.at >= windlass.at(:since)
   and (:actor::text is null or actor = :actor::text)
   and (:action::text is null or action = :action::text or starts_with(action, :action::text || '.'))
   and (:subject::text is null or subject = :subject::text)
   and (:org_id::text is null or org_id = :org_id::text)
 order by audit_id desc limit :limit;

-- name: owners_of
select distinct group_id, org_id, queue from windlass.jobs where group_id = any(:ids::text[])
 order by group_id, org_id nulls first, queue;
