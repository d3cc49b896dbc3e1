"""The bugs that mutants.py plants in the capacity answer, and the tier that is to catch each."""

from __future__ import annotations

from mutants_of_web import Planted

PACE, CAPACITY = "core/pace.py", "core/capacity.py"
PURE = ("capacity",)
CAPACITIES: list[Planted] = [
    ("pace: a bulk is taken for a habit", PACE,
     "steady=max(median(one.came / one.seconds for one in steps), 0.0)",
     "steady=max(sum(one.came for one in steps) / seconds, 0.0)", PURE),
    ("pace: a job seen waiting proves that there is no more", PACE,
     "least >= max(1.0, LATE * ended / seconds)", "least >= 1.0", PURE),
    ("pace: jobs that just came prove that there is no more", PACE, "busy=worked and waited and", "busy=worked and", PURE),
    ("pace: minutes without a worker count as its pace", PACE, "busy=worked and waited", "busy=waited", PURE),
    ("pace: what runs is forgotten among what came", PACE,
     "    return waiting_of(depth) + at_work(depth)", "    return waiting_of(depth)", PURE),
    ("pace: the first minutes prove what is possible", PACE, "if one.busy][-PROOF:]", "if one.busy][:PROOF]", PURE),
    ("pace: what was seen of slots is believed against the histogram", PACE, "min(max(seen, least), most), runs",
     "seen, runs", PURE),
    ("pace: a leader's first sample ends a minute", PACE, "minutes[1:] if len(minutes) > ENOUGH_MINUTES else minutes  #",
     "minutes  #", PURE),
    ("pace: samples of long ago are a pace", PACE, " or now - (minutes[-1] + MINUTE) > STALE", "", PURE),
    ("capacity: arrivals do not matter", CAPACITY, "spare = service - pace.steady", "spare = service", PURE),
    ("capacity: slots of others are ours", CAPACITY,
     "min(max(slots - busy, 0.0), slots)", "slots", PURE),
    ("capacity: what was seen is exceeded by what could be", CAPACITY,
     "return max(slots / pace.proven, pace.run or 0.0), pace.proven",
     "return pace.run or slots / pace.proven, pace.proven", PURE),
    ("capacity: all slots busy is enough to keep up", CAPACITY, "rate * cost / used", "rate * cost", PURE),
    ("capacity: a limit promises what it forbids", CAPACITY,
     "service, rate_key = least(ended, [(cap.rate, cap.key) for cap in caps])", "service, rate_key = ended, None", PURE),
    ("capacity: permits are asked of workers", CAPACITY, "permits = 2 * parked > waiting", "permits = False", PURE),
    ("capacity: a paused queue drains", "admin/capacity.py",
     'stop: Stop | None = "paused" if queue.paused_at is not None else "held"', 'stop: Stop | None = "held"',
     ("capacity_of_stores",)),
    ("capacity: a queue that was calm is not known", "admin/capacity.py",
     "runs_in(recent.get(queue.name, ())) < ENOUGH_RUNS", "runs_in(recent.get(queue.name, ())) < 0",
     ("capacity_of_stores",)),
]  # fmt: skip
