"""One job as a page that a person reads from top to bottom, and one queue in its order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from textwrap import fill, indent
from typing import Any, Final

from windlass.admin.views import Entry, JobDetail, JobView, Link, LinkView, RunView
from windlass.cli.output import STYLES, Output, Part, local, one_line, state_of
from windlass.cli.session import Common, opened
from windlass.wording import age, in_words, plural, relative

DIM: Final = "dim"
NAME: Final = 11
WIDTH: Final = 90
LINES: Final = 60
SPARED: Final = "handed back, or from before somebody had it run again"


def show_job(detail: JobDetail, common: Common, *, verbose: bool) -> None:
    out, job = common.out, detail.job
    out.line((job.type, "bold"), "  ", state_of(job), "  ", (job.id, DIM))
    if job.superseded_by is not None:
        out.line("  this link of the chain was taken over; the chain is now ", state_of(detail.head), f"  {detail.head.id}")
    out.line()
    for name, text in _facts(job):
        first, *rest = text.split("\n")
        out.line("  ", (name.ljust(NAME), DIM), first)
        for line in rest:
            out.line("  ", " " * NAME, line)
    if len(detail.chain) > 1:
        out.line()
        out.line(("Chain", "bold"))
        for number, link in enumerate(detail.chain):
            out.line(*_drawn(number, link, detail))
    _links("Waits for", detail.parents, out)
    _links("Awaited by", detail.dependants, out)
    out.line()
    out.line(("Timeline", "bold"))
    for entry in detail.timeline:
        out.line(*_entry(entry, detail))
    if detail.runs or detail.unkept:
        out.line()
        out.line(("Runs", "bold"))
        if detail.earlier_runs:
            out.line("  ", (f"{detail.earlier_runs:,} earlier runs are not shown", DIM))
        for run in detail.runs:
            _run(run, detail, common, verbose=verbose)
        if detail.unkept:
            out.line("  ", (detail.unkept, DIM))
    if detail.head.result is not None:
        out.line()
        out.line(("Result", "bold"))
        for line in _pretty(detail.head.result).split("\n"):
            out.line("  ", line)
    steps = list(_next_steps(detail.head, verbose or not any(run.traceback for run in detail.runs)))
    if steps:
        out.line()
        out.line(("What you can do next", "bold"))
        width = max(len(common.again(command)) for command, _ in steps)
        for command, why in steps:
            out.line("  ", common.again(command).ljust(width), "  ", (why, DIM))


def _links(title: str, links: tuple[LinkView, ...], out: Output) -> None:
    if links:
        out.line()
        out.line((title, "bold"))
    for link in links:
        state = link.state or "pruned"
        rule = "" if link.done else ", if that fails it is cancelled" if link.rule == "cancel" else ", however that ends"
        out.line("  ", link.id, "  ", one_line(link.type or "", 30), "  ", (state, STYLES.get(state, DIM)), (rule, DIM))


def _facts(job: JobView) -> Iterator[tuple[str, str]]:
    place = f"{job.queue}" + (f", priority {job.priority}" if job.priority else "")
    yield "queue", place
    if job.org_id:
        yield "org", job.org_id
    if job.tags:
        yield "tags", ", ".join(job.tags)
    yield "arguments", _pretty(job.payload)
    yield "policy", job.policy
    most = f" of {job.max_attempts}" if job.max_attempts else ""
    lost = f", {job.lost} lost with their worker" if job.lost else ""
    spared = job.runs - job.executions
    more = (
        f"; {plural(job.runs, 'run')} in all, of which {spared} {'does' if spared == 1 else 'do'} not count: {SPARED}"
        if spared
        else ""
    )
    yield "executions", f"{job.executions}{most}, {job.attempts} failed{lost}{more}"
    for name, value in (
        ("key", job.idempotency_key), ("dedupe", job.dedupe_key), ("group", job.group_id), ("template", job.template_id),
        ("schedule", job.schedule_id), ("parked on", job.parked_on), ("retry of", job.retry_of),
    ):  # fmt: skip
        if value:
            yield name, one_line(value)
    if job.progress is not None and job.state == "running":
        yield "progress", f"{job.progress:.0%}" + (f", {one_line(job.progress_note)}" if job.progress_note else "")


def _entry(entry: Entry, detail: JobDetail) -> tuple[Part, ...]:
    number = f"#{entry.attempt}" if entry.attempt is not None else ""
    return (
        "  ", (local(entry.at), DIM), "  ", (relative(entry.at, detail.at).rjust(14), DIM), "  ",
        (entry.what.ljust(10), STYLES.get(entry.what, "")), " ", number.ljust(3), " ", one_line(entry.text, 200),
        _link(entry.job_id, detail),
    )  # fmt: skip


def _drawn(number: int, link: Link, detail: JobDetail) -> tuple[Part, ...]:
    branch = f"{'   ' * (number - 1)}└─ " if number else ""
    made = "  retried by hand" if link.manual else ""
    here = "  ← this one" if link.id == detail.job.id else ""
    error = f"  {one_line(link.error, 80)}" if link.error else ""
    return "  ", branch, link.id, "  ", (link.label, STYLES.get(link.label, "")), made, (error, DIM), (here, DIM)


def _link(job_id: str, detail: JobDetail) -> Part:
    return (f"  (link {detail.links.index(job_id) + 1})", DIM) if len(detail.links) > 1 else ""


def _run(run: RunView, detail: JobDetail, common: Common, *, verbose: bool) -> None:
    out = common.out
    status = run.status or "running"
    took = in_words(round(run.took * 1e6)) if run.took is not None else "not yet ended"
    out.line(
        f"  #{run.attempt}".ljust(6), (status.ljust(10), STYLES.get(status, "green")), took.ljust(14),
        (run.worker_id or "", DIM), _link(run.job_id, detail),
    )  # fmt: skip
    if run.exit_code is not None or run.cpu is not None:
        out.line("      ", (_cost(run), DIM))
    if run.error:
        out.line("      ", (one_line(run.error, 500), "red" if run.status == "failed" else DIM))
    if verbose and run.traceback:
        for line in run.traceback.rstrip().split("\n"):
            out.line("      ", (line[:500], DIM))
    for artifact in run.artifacts:
        out.line("      ", ("artifact ", DIM), one_line(artifact))
    if run.log_path is not None:
        out.line("      ", ("log ", DIM), common.again(f"jobs logs {run.job_id} --run {run.attempt}"))


def _cost(run: RunView) -> str:
    """Of a process: how it ended, and what it took."""
    said = [] if run.exit_code is None else [f"exit code {run.exit_code}"]
    said += [] if run.cpu is None else [f"{in_words(round(run.cpu * 1e6))} of CPU"]
    said += [] if run.peak_rss is None else [f"{run.peak_rss / (1 << 20):,.0f} MiB at most"]
    return ", ".join(said)


def _next_steps(job: JobView, traced: bool) -> Iterator[tuple[str, str]]:
    if not traced:
        yield f"jobs show {job.id} -v", "with tracebacks"
    if job.state == "dead" and job.dead_kind == "rejected":
        yield f"enqueue {job.type} --app APP name=value", "store it anew, with arguments that the task takes"
        yield f"jobs retry {job.id}", "run it again as it is, once the task takes it: it was refused for what it says"
    elif job.state == "dead":
        yield f"jobs retry {job.id}", "run it again, with its whole allowance"
    if job.state == "dead":
        yield f"dlq list --type {job.type} --by-error", "others that died like it"
    if job.group_id is not None:
        yield f"groups show {job.group_id}", "the others of its group"
    if job.label == "scheduled":
        yield f"jobs run-now {job.id}", "do not wait any longer"
    if job.state == "queued":
        yield f"jobs move {job.id} top", "let it be the next of its priority"
    if job.state in ("queued", "running"):
        yield f"watch {job.id}", "follow it to its end"
        yield f"jobs cancel {job.id}", "stop it"
    else:
        yield f"jobs delete {job.id}", "forget it and its runs"


def _pretty(value: Any) -> str:
    """A megabyte of it is not shown."""
    lines = _laid_out(value, WIDTH).split("\n")
    shown = lines if len(lines) <= LINES else [*lines[:LINES], f"… {len(lines) - LINES} more lines; all of it with --json"]
    return "\n".join(line[:2_000] for line in shown)


def _laid_out(value: Any, width: int) -> str:
    """JSON on one line where it fits, else one element a line; plain numbers and words fill their lines."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= width or not isinstance(value, dict | list):
        return text
    if isinstance(value, dict):
        inside = ",\n".join(f"{json.dumps(key)}: {_laid_out(item, width - 2)}" for key, item in value.items())
    elif any(isinstance(item, dict | list) for item in value):
        inside = ",\n".join(_laid_out(item, width - 2) for item in value)
    else:
        inside = fill(text[1:-1], width, break_long_words=False, break_on_hyphens=False)
    opens, closes = "{}" if isinstance(value, dict) else "[]"
    return f"{opens}\n{indent(inside, '  ')}\n{closes}"


async def show_order(queue: str, limit: int, common: Common) -> None:
    """What is queued in one queue, first to last."""
    async with opened(common) as admin:
        found = await admin.order(queue, limit=limit, system=common.words)
        sized = () if common.json else (await admin.capacity()).queues
    if common.json:
        common.out.emit(found)
        return
    if not found.jobs:
        common.out.note(f"nothing is queued in {queue}")
        return
    rows = [
        (
            str(place), job.id, one_line(job.type, 30), str(job.priority), str(job.position), state_of(job),
            age(job.created_at, found.at),
        )
        for place, job in enumerate(found.jobs, 1)
    ]  # fmt: skip
    common.out.table(("#", "ID", "TYPE", "PRIORITY", "POSITION", "STATE", "AGE"), rows)
    for one in sized:
        if one.name == queue:
            common.out.note(f"{one.capacity.text}; {common.again(f'queues capacity {queue}')}")
    if len(found.jobs) == limit:
        common.out.note(f"there may be more: --limit {limit * 2}")
