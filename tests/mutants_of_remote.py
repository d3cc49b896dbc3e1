"""The bugs that mutants.py plants between remote workers and their store, and the tier that is to catch each."""

from __future__ import annotations

Planted = tuple[str, str, str, str, tuple[str, ...]]  # what, file, old, new, tiers; after a colon, which of its tests

REMOTE: list[Planted] = [
    # the server
    ("remote: a caller says what time it is", "web/site.py", "said if self.trusts_now and said is not None", "said if said is not None",
     ("protocol: only_a_server_of_tests",)),
    ("remote: an end in the future is believed", "web/api/driving.py", "return change if (at, start) == ", "return change if True or (at, start) == ",
     ("protocol: in_the_future",)),
    ("remote: a run took as long as a worker says", "web/api/driving.py", "began(change.started_at, now)", "change.started_at", ("protocol: took_an_age",)),
    ("remote: a token of some queues claims from all", "web/api/working.py", "if principal.queues is not None and not set(queues) <= set(principal.queues):", "if False:",
     ("protocol: some_queues",)),
    ("remote: a token of some queues ends any job", "web/api/working.py", "if job is not None and within(by, job.org_id, job.queue)}", "if job is not None}",
     ("protocol: some_queues",)),
    ("remote: a worker makes tokens", "web/api/driving.py", "not all(isinstance(change, OF_WORKERS) for change in call.changes)", "False",
     ("protocol: no_admin",)),
    ("remote: who acts is whom the caller names", "web/api/driving.py", "else replace(by, actor=principal.actor)", "else by", ("protocol: name_of_their_token",)),
    ("remote: nobody is named who changes something", "web/api/driving.py", "by = by if site.trusts_now else _in_the_name_of(request.principal, by)", "pass",
     ("protocol: name_of_their_token",)),
    ("remote: a repeated claim takes more", "web/replies.py", "return [_claimed(job) for job in held] or await", "return await", ("protocol: same_claim",)),
    ("remote: one claim sent twice at once takes twice", "web/replies.py", "        if answer is None:", "        if True:", ("protocol: twice_at_once",)),
    ("remote: a claim finds what another worker holds", "drivers/memory/inspect.py", "(job.lease_token, job.worker_id) == (query.token, query.worker_id)",
     "job.lease_token == query.token", ("protocol: same_claim",)),
    ("remote: waiting begins when one waits", "web/wakeups.py", "if wake is not None and wake != here:", "if False:", ("protocol: between_a_claim",)),
    ("remote: what a payload keeps secret is told in errors", "web/api/outcomes.py", "scrub = scrubber_of(job.payload, job.headers)", "scrub = str",
     ("protocol: keeps_secret",)),
    # the driver
    ("http: what may have been heard is sent again", "drivers/http/link.py", "if is_lost and not again:", "if False:", ("far: cannot_be_repeated",)),
    ("http: a lost enqueue is believed to be stored", "drivers/http/driver.py", "return {row.id for row in rows if row is not None}",
     "return {job.id for job in new}", ("far: lost_reply",)),
    ("http: another's job under the same id is taken for ours", "drivers/http/looking.py", "        return False\n", "        return True\n",
     ("far: somebody_else",)),
    ("http: a lost enqueue that cannot be looked for is told as refused", "drivers/http/driver.py",
     "            except StoreError:\n                raise OutcomeUnknown", "            except StoreUnavailable:\n                raise OutcomeUnknown",
     ("far: lost_enqueue",)),
    ("http: a lost enqueue that may come late is told as refused", "drivers/http/driver.py",
     "                if is_lost:  # the try before", "                if False:  # the try before", ("far: come_late",)),
    ("http: what a proxy refuses is never made smaller", "drivers/http/driver.py", "                if len(units) < 2:\n                    raise", "                raise",
     ("far: takes_for_too_large",)),
    ("http: a proxy that refuses for good is an outage", "drivers/http/faults.py", "    if status == TOO_LARGE:", "    if status == TOO_LARGE and problem is not None:",
     ("far: takes_for_too_large",)),
    ("http: the token is shown", "urls.py", "    url = _TOKEN.sub", "    _TOKEN.sub", ("far: without_its_token",)),
    # the statement
    ("sql: a key that is taken makes another job", "drivers/postgres/migrations/0001_windlass.sql", "      is_ours := found;", "      is_ours := true;",
     ("by_sql: whoever_uses_it",)),
    ("sql: nobody is woken", "drivers/postgres/migrations/0001_windlass.sql", "if enqueue.notify and coalesce", "if false and coalesce",
     ("by_sql: wakes_a_worker",)),
]  # fmt: skip
