"""The bugs that mutants.py plants in encryption and in what deployments ask, and the tier that is to catch each."""

from __future__ import annotations

from mutants_of_web import Planted

SEALING, SEALED = "sealing.py", "drivers/sealed.py"
TIER = ("sealing",)
SEALINGS: list[Planted] = [
    ("sealing: a payload opens in any organisation", SEALING,
     'b"" if org_id is None else b"=" + org_id.encode()', 'b""', TIER),
    ("sealing: a payload opens in the row of another job", SEALING, ", job_id.encode()]", "]", TIER),
    ("sealing: no organisation is one without a name", SEALING, 'b"=" + org_id.encode()', "org_id.encode()", TIER),
    ("sealing: the oldest key seals", SEALING, "_derived(self._keys[self._seals_by], about)",
     "_derived(self._keys[self.names[0]], about)", TIER),
    ("sealing: everybody may read the keys", SEALING, "stat.S_IRWXO", "0", TIER),
    ("sealing: a rotation forgets who was a duplicate", SEALING, "next(iter(keys.values()))", "[*keys.values()][-1]", TIER),
    ("sealed: the key of a duplicate tells the arguments", SEALED, "key = ring.hidden(key)", "pass", TIER),
    ("sealed: a chain carries a payload to another job", SEALED, 'if job.retry_mode == "new_job":', "if False:", TIER),
    ("sealed: fired jobs are stored as they are", SEALED, "if isinstance(change, Fire) else change", "if False else change", TIER),
    ("sealed: a transaction stores jobs as they are", SEALED, "return SealedTransaction(self._inner.transaction(), self._ring)",
     "return self._inner.transaction()", TIER),
    ("sealed: a transaction stores its result as it is", "worker/holdings.py", "Succeeded(self.sealed(value))",
     "Succeeded(value)", TIER),
    ("sealed: a result is stored as it is", "worker/finish.py", "Succeeded(held.sealed(outcome.result))",
     "Succeeded(outcome.result)", TIER),
    ("sealing: a key that others lack encrypts", SEALING, "if name not in waiting]", "]", TIER),
    ("sealed: the key of a queue's duplicate tells the arguments", "core/uniqueness.py",
     "key in (made, bounded(_in_queue(made, job.queue)))", "key == made", TIER),
    ("sealed: the driver's door stores results as they are", "web/api/driving.py", "if ring is None or not told:", "if True:", TIER),
    ("sealed: a group's cancelled member comes back unreadable", SEALED, "comes_back(job) and not stays(job)", "False", TIER),
    ("workers: a probe is content with any host", "cli/workers.py", "if one.hostname == socket.gethostname()", "", ("probe",)),
    ("workers: a probe is content with the dead", "cli/workers.py", "any(worker.alive for worker in found.workers)",
     "any(found.workers)", ("probe",)),
]  # fmt: skip
