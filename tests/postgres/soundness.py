"""What is true of the rows after every interleaving, whoever won."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RULES = {
    "a running job has one open run, the last; another has none": """
      select jobs.id from windlass.jobs left join windlass.runs on job_seq = seq
       group by jobs.id having count(job_seq) <> max(executions)
           or count(*) filter (where job_seq is not null and status is null) <> max((state = 'running')::int)
           or max((state = 'running')::int) <> count(*) filter (where status is null and attempt_no = executions)""",
    "a run that has ended says when and how": """
      select run_id from windlass.runs where (status is null) <> (finished_at is null)""",
    "permits that are out are held by running jobs": """
      select key from windlass.limits
       where used <> (select count(*) from windlass.jobs where state = 'running' and permits ? key)""",
    "who runs holds a permit of every limit that concerns it": """
      select key || ' ' || jobs.id from windlass.limits, windlass.jobs
       where state = 'running' and not coalesce(permits ? key, false)
         and (key in ('global', 'queue:' || queue, 'type:' || type, 'org:' || org_id) or limit_keys ? key
              or (key like 'tag:%' and tags ? substr(key, 5)))""",
    "no limit is exceeded": "select key from windlass.limits where used > max_used",
    "nobody waits for a key that has room, unless a rival of its kind may take it": """
      select parked.id from windlass.jobs as parked join windlass.limits on key = parked.parked_on
       where parked.state = 'queued' and (max_used is null or used < max_used) and limits.paused_at is null
         and limits.wake_at is null
         and not exists (select from windlass.jobs as rival where rival.state = 'queued' and rival.ready
                            and (rival.limit_keys ? key or key in ('type:' || rival.type, 'org:' || rival.org_id)
                                 or (key like 'tag:%' and rival.tags ? substr(key, 5)))
                            and rival.queue = parked.queue and rival.type = parked.type)""",
    "nobody waits for a key that nobody limits": """
      select id from windlass.jobs where state = 'queued' and parked_on is not null
         and parked_on not in (select key from windlass.limits)""",
    "a group counts its members, and ends with the last": """
      select group_id from windlass.groups
       where (remaining = 0) <> (finished_at is not null)
          or (succeeded, failed, cancelled) <> (
             select count(*) filter (where state = 'succeeded'),
                    count(*) filter (where state = 'dead' and dead_kind <> 'superseded'),
                    count(*) filter (where state = 'cancelled' and superseded_by is null)
               from windlass.jobs where jobs.group_id = groups.group_id)""",
    "a queued job counts the parents whose end it was not told": """
      select id from windlass.jobs where state = 'queued'
         and waiting_on <> (select count(*) from windlass.dependencies where job_seq = seq and not done)""",
    "who is waited for will tell": """
      select parent.id from windlass.dependencies join windlass.jobs as parent on parent.id = parent_id
        join windlass.jobs as child on child.seq = job_seq
       where not done and child.state = 'queued' and not parent.awaited""",
    "a key is held by one job": """
      select dedupe_key from windlass.jobs where dedupe_key is not null and state in ('queued', 'running')
       group by dedupe_key having count(*) > 1""",
    "who took over from a job is there": """
      select id from windlass.jobs where superseded_by is not null
         and superseded_by not in (select id from windlass.jobs)""",
    "what a link retries is there": """
      select id from windlass.jobs where retry_of is not null and retry_of not in (select id from windlass.jobs)""",
    "a never-twice job ran once": "select id from windlass.jobs where retry_mode = 'new_job' and executions > 1",
}  # fmt: skip


def assert_sound(ask: Callable[[str], list[tuple[Any, ...]]], story: object = "") -> None:
    """`ask` answers the rows of a query on the schema."""
    query = " union all ".join(f"select {quoted(rule)}, x.* from ({sql}) as x" for rule, sql in RULES.items())
    broken = [f"not so: {rule} ({who})" for rule, who in ask(query)]
    assert not broken, "\n".join([*broken, str(story)])


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
