-- The audit log. core/audit.py; column order: windlass.records.AuditLine.

-- name: add_audit
insert into audit (at, actor, action, subject, detail, org_id, selection, count)
values (:at, :actor, :action, :subject, :detail, :org_id, :selection, :count);

-- name: audit_log
select at, actor, action, subject, detail, org_id, selection, count from audit where audit.at >= :since order by audit_id;

-- name: audit_page
-- Along the numbers, from the newest.
select audit_id, at, actor, action, subject, detail, org_id, selection, count from audit
 where audit_id > :after and (:before is null or audit_id < :before) and audit.at >= :since
   and (:actor is null or actor = :actor)
   and (:action is null or action = :action or substr(action, 1, length(:action) + 1) = :action || '.')
   and (:subject is null or subject = :subject)
   and (:org_id is null or org_id = :org_id)
 order by audit_id desc limit :limit;

-- name: last_audited
select audit_id from audit order by audit_id desc limit 1;

-- name: owners_of
select distinct group_id, org_id, queue from jobs where group_id in (select value from json_each(:ids))
 order by group_id, org_id nulls first, queue;
