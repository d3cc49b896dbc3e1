"""The bugs that mutants.py plants in what a deployment tells of itself, and the tier that is to catch each."""

from __future__ import annotations

from mutants_of_web import Planted

METRICS, TELEMETRY, SCRAPES = ("metrics",), ("telemetry",), ("scrapes",)
OBSERVE: list[Planted] = [
    ("measures: a wait begins with the claim", "telemetry/measures.py", "started_at - job.due_at", "started_at - job.claimed_at",
     METRICS),
    ("exposition: a name can end its label", "telemetry/exposition.py", """.replace('"', '\\\\"')""", "", METRICS),
    ("sampled: every scrape counts", "admin/sampled.py", "await by_queue(client, last, now)",
     "await by_queue(client, [], now, exact=True)", SCRAPES),
    ("tracing: an execution goes on with the producer's trace", "telemetry/tracing.py",
     'f"process {job.queue}", otel.Context(),', 'f"process {job.queue}", trace.set_span_in_context(trace.NonRecordingSpan(producer)),',
     TELEMETRY),
    ("jsonlog: secrets are in the line", "telemetry/jsonlog.py", '"event": scrub(record.getMessage())',
     '"event": record.getMessage()', TELEMETRY),
    ("jsonlog: secrets are beside the line", "telemetry/jsonlog.py", "return scrub.data(msgspec.to_builtins(",
     "return (msgspec.to_builtins(", TELEMETRY),
    ("jsonlog: a record carries the arguments", "telemetry/jsonlog.py", "        return self.job.id\n",
     "        return repr(self.job)\n", TELEMETRY),
    ("tracing: a listener that fails ends the worker", "telemetry/tracing.py", "    except Exception:  # somebody else's code",
     "    except ZeroDivisionError:  # somebody else's code", TELEMETRY),
    ("notify: children speak in our name", "telemetry/notify.py", "env.pop(name, \"\")", "env.get(name, \"\")", TELEMETRY),
]  # fmt: skip
