-- Usage, added up as it is asked for. core/usage.py: spread, merged; column order: windlass.records.Usage.

-- name: usage_by
select case when :step = 0 then 0 else hour - hour % max(:step, 1) end, case when :by_org then org_id else '' end,
       case when :by_queue then queue else '' end, case when :by_type then type else '' end,
       case when :by_outcome then outcome else '' end,
       sum(runs), sum(run_us), sum(wait_us), sum(cpu_us), max(peak_rss)
  from usage_hourly
 where hour >= :since and hour < :until and (:org_id is null or org_id = :org_id) and (:type is null or type = :type)
   and (:queues is null or queue in (select value from json_each(:queues)))
 group by 1, 2, 3, 4, 5
 order by 1, 2, 3, 4, 5
 limit :limit;
