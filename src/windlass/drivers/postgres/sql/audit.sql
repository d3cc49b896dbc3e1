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
 where audit_id > :after and audit_id < coalesce(:before, 9223372036854775807) and audit.at >= windlass.at(:since)
   and (:actor::text is null or actor = :actor::text)
   and (:action::text is null or action = :action::text or starts_with(action, :action::text || '.'))
   and (:subject::text is null or subject = :subject::text)
   and (:org_id::text is null or org_id = :org_id::text)
 order by audit_id desc limit :limit;

-- name: last_audited
select audit_id from windlass.audit order by audit_id desc limit 1;

-- name: owners_of
select distinct group_id, org_id, queue from windlass.jobs where group_id = any(:ids::text[])
 order by group_id, org_id nulls first, queue;
