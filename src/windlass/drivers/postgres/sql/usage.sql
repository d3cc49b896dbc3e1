-- Usage, added up as it is asked for. core/usage.py: spread, merged; column order: windlass.records.Usage.

-- name: usage_by
-- core/usage.py: whole_days. The days from :first to :last by the day, what is before and behind them by the hour.
select coalesce(windlass.micros(span), 0), org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss from (
  select case when :step::bigint > 0 then date_bin(:step::bigint * interval '1 microsecond', hour, 'epoch'::timestamptz) end as span,
         case when :by_org::boolean then org_id else '' end collate "C" as org_id,
         case when :by_queue::boolean then queue else '' end collate "C" as queue,
         case when :by_type::boolean then type else '' end collate "C" as type,
         case when :by_outcome::boolean then outcome else '' end collate "C" as outcome,
         sum(runs)::bigint as runs, sum(run_us)::bigint as run_us, sum(wait_us)::bigint as wait_us, sum(cpu_us)::bigint as cpu_us,
         max(peak_rss) as peak_rss
    from (select hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss from windlass.usage_hourly
           where hour >= windlass.at(:since) and hour < windlass.at(:first)
          union all
          select day, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss from windlass.usage_daily
           where day >= windlass.at(:first) and day < windlass.at(:last)
          union all
          select hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss from windlass.usage_hourly
           where hour >= windlass.at(:last) and hour < windlass.at(:until)) as used
   where (:org_id::text is null or org_id = :org_id::text) and (:type::text is null or type = :type::text)
     and (:queues::text[] is null or queue = any(:queues::text[]))
   group by 1, 2, 3, 4, 5) as added
 order by span, org_id, queue, type, outcome
 limit :limit;

-- name: first_hour
select windlass.micros(hour) from windlass.usage_hourly where hour >= windlass.at(:since) order by hour limit 1;

-- name: days_until
-- Hours before this one are in `usage_daily`.
select value::bigint from windlass.meta where key = 'usage_days';

-- name: set_days_until
insert into windlass.meta (key, value) values ('usage_days', (:hour::bigint)::text)
on conflict (key) do update set value = excluded.value;

-- name: fold_days
insert into windlass.usage_daily as daily (day, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select date_trunc('day', hour, 'UTC'), org_id, queue, type, outcome, sum(runs), sum(run_us), sum(wait_us), sum(cpu_us),
       max(peak_rss)
  from windlass.usage_hourly where hour >= windlass.at(:since) and hour < windlass.at(:until)
 group by 1, 2, 3, 4, 5
on conflict (day, org_id, queue, type, outcome) do update
   set runs = daily.runs + excluded.runs, run_us = daily.run_us + excluded.run_us, wait_us = daily.wait_us + excluded.wait_us,
       cpu_us = daily.cpu_us + excluded.cpu_us, peak_rss = greatest(daily.peak_rss, excluded.peak_rss);

-- name: count_late_days
-- Runs that were closed just now and ended in an hour that is in `usage_daily` already.
insert into windlass.usage_daily as daily (day, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select date_trunc('day', runs.finished_at, 'UTC'), coalesce(runs.org_id, ''), runs.queue, runs.type, status, count(*),
       sum(greatest(windlass.micros(runs.finished_at) - windlass.micros(runs.started_at), 0)), sum(coalesce(wait_us, 0)),
       sum(coalesce(cpu_us, 0)), max(peak_rss)
  from windlass.jobs join windlass.runs on job_seq = seq and attempt_no = executions
 where seq = any(:seqs::bigint[]) and runs.finished_at < windlass.at(:hour)
 group by 1, 2, 3, 4, 5
 order by 1, 2, 3, 4, 5
on conflict (day, org_id, queue, type, outcome) do update
   set runs = daily.runs + excluded.runs, run_us = daily.run_us + excluded.run_us, wait_us = daily.wait_us + excluded.wait_us,
       cpu_us = daily.cpu_us + excluded.cpu_us, peak_rss = greatest(daily.peak_rss, excluded.peak_rss);

-- name: forget_hours
-- What is left of it when whole months are gone.
delete from windlass.usage_hourly
 where (hour, org_id, queue, type, outcome) in (
       select hour, org_id, queue, type, outcome from windlass.usage_hourly where hour < windlass.at(:before)
        order by hour, org_id, queue, type, outcome limit :limit)
returning hour;

-- name: forget_days
delete from windlass.usage_daily
 where (day, org_id, queue, type, outcome) in (
       select day, org_id, queue, type, outcome from windlass.usage_daily where day < windlass.at(:before)
        order by day, org_id, queue, type, outcome limit :limit)
returning day;
