-- Groups as a whole.

-- name: put_group
insert into windlass.groups (group_id, name, mode, on_failure, total, remaining, created_at)
values (:group_id, :name, :mode, :on_failure, :total, :total, windlass.at(:now))
on conflict (group_id) do nothing
returning group_id;

-- name: lock_groups
-- In the order of their keys; whether the end of a member may cancel others.
select group_id, on_failure = 'stop' from windlass.groups where group_id = any(:ids::text[]) order by group_id for no key update;

-- name: count_members
-- core/counters.py: count_member, as a delta.
update windlass.groups
   set remaining = remaining - least(:members::bigint, remaining),
       succeeded = succeeded + least(:members::bigint, remaining) * (:ending::text = 'succeeded')::int,
       failed = failed + least(:members::bigint, remaining) * (:ending::text = 'failed')::int,
       cancelled = cancelled + least(:members::bigint, remaining) * (:ending::text = 'cancelled')::int,
       finished_at = case when remaining <= :members::bigint then windlass.at(:now) end
 where group_id = :group_id and remaining > 0
returning remaining;

-- name: uncount_failed
-- core/counters.py: uncount_member. A dead member was brought back by a person; what retention found of the group is over.
update windlass.groups set remaining = remaining + 1, failed = failed - 1, finished_at = null, kept_by = null
 where group_id = :group_id and failed > 0;

-- name: uncount_cancelled
update windlass.groups set remaining = remaining + 1, cancelled = cancelled - 1, finished_at = null, kept_by = null
 where group_id = :group_id and cancelled > 0;

-- name: group_rule
select mode, on_failure from windlass.groups where group_id = :group_id;

-- name: queued_members
select seq from windlass.jobs
 where group_id = :group_id and group_id is not null and case when true then state end = 'queued' order by seq;

-- name: stopped_with
-- Queued members of those of these groups in which the end of one may cancel the others, and what they wait for permits of.
select jobs.seq, jobs.limit_keys::text, jobs.type, jobs.org_id, jobs.tags::text
  from windlass.groups join windlass.jobs on jobs.group_id = groups.group_id
 where groups.group_id = any(:ids::text[]) and on_failure = 'stop' and jobs.group_id is not null
   and case when true then jobs.state end = 'queued';

-- name: members_in
select seq from windlass.jobs where group_id = any(:ids::text[]) and group_id is not null;

-- name: cancel_members
-- core/rows.py: cancelled
update windlass.jobs
   set state = 'cancelled', parked_on = null, finished_at = windlass.at(:now), last_error = :reason,
       updated_at = windlass.touched(updated_at, :now)
 where group_id = :group_id and group_id is not null and case when true then state end = 'queued'
returning seq, id, awaited, waiting_on, limit_keys::text, type, org_id, tags::text;

-- name: cancel_running_members
-- core/rows.py: cancel_requested
update windlass.jobs set cancel_requested_at = windlass.at(:now), last_error = :reason, updated_at = windlass.touched(updated_at, :now)
 where group_id = :group_id and group_id is not null and case when true then state end = 'running'
   and cancel_requested_at is null
returning seq;

-- name: take_over
-- A cancelled member stays so; another job takes its place in the group.
update windlass.jobs set superseded_by = :child_id, updated_at = windlass.touched(updated_at, :now)
 where id = :id and state = 'cancelled' and superseded_by is null;

-- name: groups_by_id
-- Column order: windlass.types.Group.
select group_id, name, mode, on_failure, total, remaining, succeeded, failed, cancelled, windlass.micros(created_at),
       windlass.micros(finished_at)
  from windlass.groups where group_id = any(:ids::text[]) order by group_id;

-- name: members_of
-- Column order: windlass.types.MemberCount.
select group_id, state, executions > 0, count(*) from windlass.jobs
 where group_id = any(:ids::text[]) and group_id is not null and superseded_by is null
 group by 1, 2, 3 order by 1, 2, 3;

-- name: newest_groups
select group_id, name, mode, on_failure, total, remaining, succeeded, failed, cancelled, windlass.micros(created_at),
       windlass.micros(finished_at)
  from windlass.groups order by groups.created_at desc, group_id desc limit :limit;

-- name: first_members
select seq from windlass.jobs where group_id = :group_id and superseded_by is null
 order by coalesce(group_seq, 0), seq limit :limit;
