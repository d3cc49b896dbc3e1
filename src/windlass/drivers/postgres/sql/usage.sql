-- Usage, added up as it is asked for. core/usage.py: spread, merged; column order: windlass.records.Usage.

-- name: usage_by
select case when :step::bigint = 0 then 0 else windlass.micros(hour) - windlass.micros(hour) % greatest(:step::bigint, 1) end,
       case when :by_org::boolean then org_id else '' end collate "C", case when :by_queue::boolean then queue else '' end collate "C",
       case when :by_type::boolean then type else '' end collate "C", case when :by_outcome::boolean then outcome else '' end collate "C",
       sum(runs)::bigint, sum(run_us)::bigint, sum(wait_us)::bigint, sum(cpu_us)::bigint, max(peak_rss)
  from windlass.usage_hourly
 where hour >= windlass.at(:since) and hour < windlass.at(:until)
   and (:org_id::text is null or org_id = :org_id::text) and (:type::text is null or type = :type::text)
   and (:queues::text[] is null or queue = any(:queues::text[]))
 group by 1, 2, 3, 4, 5
 order by 1, 2, 3, 4, 5
 limit :limit;
