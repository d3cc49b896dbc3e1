-- Groups as a whole.

-- name: put_group
insert into groups (group_id, name, mode, on_failure, total, remaining, created_at)
values (:group_id, :name, :mode, :on_failure, :total, :total, :now)
on conflict (group_id) do nothing
returning group_id;

-- name: count_members
-- core/counters.py: count_member, as a delta.
update groups
   set remaining = remaining - min(:members, remaining),
       succeeded = succeeded + min(:members, remaining) * (:ending = 'succeeded'),
       failed = failed + min(:members, remaining) * (:ending = 'failed'),
       cancelled = cancelled + min(:members, remaining) * (:ending = 'cancelled'),
       finished_at = case when remaining <= :members then :now end
 where group_id = :group_id and remaining > 0
returning remaining;

-- name: uncount_failed
-- core/counters.py: uncount_member. A dead member was brought back by a person; what retention found of the group is over.
update groups set remaining = remaining + 1, failed = failed - 1, finished_at = null, kept_by = null
 where group_id = :group_id and failed > 0;

-- name: uncount_cancelled
update groups set remaining = remaining + 1, cancelled = cancelled - 1, finished_at = null, kept_by = null
 where group_id = :group_id and cancelled > 0;

-- name: group_rule
select mode, on_failure from groups where group_id = :group_id;

-- name: queued_members
select seq from jobs indexed by jobs_group where group_id = :group_id and state = 'queued' order by seq;

-- name: cancel_members
-- core/rows.py: cancelled
update jobs
   set state = 'cancelled', parked_on = null, finished_at = :now, last_error = :reason, updated_at = max(:now, updated_at + 1)
 where seq in (select seq from jobs indexed by jobs_group where group_id = :group_id) and state = 'queued'
returning seq, id, awaited, waiting_on, limit_keys, type, org_id, tags;

-- name: cancel_running_members
-- core/rows.py: cancel_requested
update jobs set cancel_requested_at = :now, last_error = :reason, updated_at = max(:now, updated_at + 1)
 where seq in (select seq from jobs indexed by jobs_group where group_id = :group_id) and state = 'running'
   and cancel_requested_at is null
returning seq;

-- name: take_over
-- A cancelled member stays so; another job takes its place in the group.
update jobs set superseded_by = :child_id, updated_at = max(:now, updated_at + 1)
 where id = :id and state = 'cancelled' and superseded_by is null;

-- name: groups_by_id
-- Column order: windlass.types.Group.
select group_id, name, mode, on_failure, total, remaining, succeeded, failed, cancelled, created_at, finished_at
  from groups where group_id in (select value from json_each(:ids)) order by group_id;

-- name: members_of
-- Column order: windlass.types.MemberCount.
select group_id, state, executions > 0, count(*) from jobs indexed by jobs_group
 where group_id in (select value from json_each(:ids)) and group_id is not null and superseded_by is null
 group by 1, 2, 3 order by 1, 2, 3;

-- name: newest_groups
select group_id, name, mode, on_failure, total, remaining, succeeded, failed, cancelled, created_at, finished_at
  from groups order by groups.created_at desc, group_id desc limit :limit;

-- name: first_members
select seq from jobs indexed by jobs_group where group_id = :group_id and superseded_by is null
 order by coalesce(group_seq, 0), seq limit :limit;
