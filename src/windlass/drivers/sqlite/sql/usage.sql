-- Usage, added up as it is asked for. core/usage.py: spread, merged; column order: windlass.records.Usage.

-- name: usage_by
-- core/usage.py: whole_days. The days from :first to :last by the day, what is before and behind them by the hour.
select case when :step = 0 then 0 else hour - hour % max(:step, 1) end, case when :by_org then org_id else '' end,
       case when :by_queue then queue else '' end, case when :by_type then type else '' end,
       case when :by_outcome then outcome else '' end,
       sum(runs), sum(run_us), sum(wait_us), sum(cpu_us), max(peak_rss)
  from (select hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss from usage_hourly
         where hour >= :since and hour < :first
        union all
        select day, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss from usage_daily
         where day >= :first and day < :last
        union all
        select hour, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss from usage_hourly
         where hour >= :last and hour < :until)
 where (:org_id is null or org_id = :org_id) and (:type is null or type = :type)
   and (:queues is null or queue in (select value from json_each(:queues)))
 group by 1, 2, 3, 4, 5
 order by 1, 2, 3, 4, 5
 limit :limit;

-- name: first_hour
select hour from usage_hourly where hour >= :since order by hour limit 1;

-- name: days_until
-- Hours before this one are in `usage_daily`.
select cast(value as integer) from meta where key = 'usage_days';

-- name: set_days_until
insert into meta (key, value) values ('usage_days', cast(:hour as text))
on conflict (key) do update set value = excluded.value;

-- name: fold_days
insert into usage_daily (day, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select hour - hour % 86400000000, org_id, queue, type, outcome, sum(runs), sum(run_us), sum(wait_us), sum(cpu_us), max(peak_rss)
  from usage_hourly where hour >= :since and hour < :until
 group by 1, 2, 3, 4, 5
on conflict (day, org_id, queue, type, outcome) do update
   set runs = usage_daily.runs + excluded.runs, run_us = usage_daily.run_us + excluded.run_us,
       wait_us = usage_daily.wait_us + excluded.wait_us, cpu_us = usage_daily.cpu_us + excluded.cpu_us,
       peak_rss = coalesce(max(usage_daily.peak_rss, excluded.peak_rss), usage_daily.peak_rss, excluded.peak_rss);

-- name: count_late_days
-- Runs that were closed just now and ended in an hour that is in `usage_daily` already.
insert into usage_daily (day, org_id, queue, type, outcome, runs, run_us, wait_us, cpu_us, peak_rss)
select runs.finished_at - runs.finished_at % 86400000000, coalesce(runs.org_id, ''), runs.queue, runs.type, status, count(*),
       sum(max(runs.finished_at - runs.started_at, 0)), sum(coalesce(wait_us, 0)), sum(coalesce(cpu_us, 0)), max(peak_rss)
  from jobs join runs on job_seq = seq and attempt_no = executions
 where seq in (select value from json_each(:seqs)) and runs.finished_at < :hour
 group by 1, 2, 3, 4, 5
on conflict (day, org_id, queue, type, outcome) do update
   set runs = usage_daily.runs + excluded.runs, run_us = usage_daily.run_us + excluded.run_us,
       wait_us = usage_daily.wait_us + excluded.wait_us, cpu_us = usage_daily.cpu_us + excluded.cpu_us,
       peak_rss = coalesce(max(usage_daily.peak_rss, excluded.peak_rss), usage_daily.peak_rss, excluded.peak_rss);

-- name: forget_hours
delete from usage_hourly
 where (hour, org_id, queue, type, outcome) in (
       select hour, org_id, queue, type, outcome from usage_hourly where hour < :before
        order by hour, org_id, queue, type, outcome limit :limit)
returning hour;

-- name: forget_days
delete from usage_daily
 where (day, org_id, queue, type, outcome) in (
       select day, org_id, queue, type, outcome from usage_daily where day < :before
        order by day, org_id, queue, type, outcome limit :limit)
returning day;
