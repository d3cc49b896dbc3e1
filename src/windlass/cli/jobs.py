"""`windlass jobs …`: look at jobs, and change one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

from cyclopts import App, Parameter

from windlass.admin import Admin
from windlass.admin.views import Changed, JobView
from windlass.cli.output import FAILED, OK, REFUSED, Part, one_line, state_of
from windlass.cli.session import Common, Flag, Paging, epilogue, opened
from windlass.cli.show import show_job, show_order
from windlass.cli.which import WhichJobs
from windlass.core.listing import Direction
from windlass.errors import InvalidInput, JobNotFound, Refused, WindlassError
from windlass.types import End, Side
from windlass.wording import age, plural

app = App(name="jobs", help="Look at jobs, and change one or many.")
app.command(
    "windlass.cli.bulk:bulk",
    name="bulk",
    help_epilogue=epilogue(
        "windlass jobs bulk retry --type report.daily --error Timeout --dry-run",
        "windlass jobs bulk cancel --queue mail --label scheduled --yes",
        "windlass jobs bulk priority --org acme --priority 9 --yes",
    ),
)


@app.command(
    name="list",
    help_epilogue=epilogue(
        "windlass jobs list --state dead --queue mail",
        "windlass jobs list --words harmonyk --state failed",
        "windlass jobs list --tag vip --since 24h --error Timeout",
        "windlass jobs list --queue mail --order",
    ),
)
async def list_jobs(
    *,
    order: Flag = False,
    oldest_first: Flag = False,
    which: WhichJobs = WhichJobs(),
    page: Paging = Paging(),
    common: Common = Common(),
) -> None:
    """Jobs, newest first. Of what has ended, what ended last.

    Args:
        order: of one queue, what is queued, as it will be dispatched; the same as `queues show`
        oldest_first: the other way round
    """
    if order:
        if which.queue is None or which != WhichJobs(queue=which.queue) or page.cursor is not None or oldest_first:
            raise InvalidInput("order", "is of one queue and of all that is queued there: --queue Q --order, and --limit")
        await show_order(which.queue, page.limit, common)
        return
    async with opened(common) as admin:
        wanted = which.filter(common, admin.client.now())
        first: Direction = "oldest" if oldest_first else "newest"
        found = await admin.jobs(wanted, limit=page.limit, cursor=page.cursor, first=first)
    if common.json:
        common.out.emit(found)
        return
    if found.jobs:
        rows = [_row(job, age(job.created_at, found.at)) for job in found.jobs]
        common.out.table(("ID", "TYPE", "QUEUE", "STATE", "AGE", "RUNS", "NOTE"), rows)
    else:
        common.out.note("no jobs" + (" like that" if which != WhichJobs() else " yet"))
    if found.stopped:
        common.out.note(f"looked at {plural(found.looked_at, 'job')}; go on from there: --cursor {found.cursor}")
    elif found.cursor is not None:
        common.out.note(f"there is more: --cursor {found.cursor}")


def _row(job: JobView, since: str) -> tuple[Part, ...]:
    runs = f"{job.executions}/{job.max_attempts}" if job.max_attempts else str(job.executions)
    note = one_line(job.dead_reason or job.last_error or "") if job.state not in ("succeeded", "running") else ""
    if job.state == "running" and job.progress is not None:
        note = one_line(f"{job.progress:.0%} {job.progress_note or ''}")
    return job.id, one_line(job.type, 30), one_line(job.queue, 20), state_of(job), since, runs, note


@app.command(help_epilogue=epilogue("windlass jobs show 0192f0c1-2345-7890-8abc-def012345678 --verbose"))
async def show(
    job_id: str,
    /,
    *,
    verbose: Annotated[Flag, Parameter(alias="-v")] = False,
    reveal: Flag = False,
    common: Common = Common(),
) -> None:
    """Everything about one job: arguments, policy, timeline, each run, and what you can do next.

    Args:
        job_id: the job's id; any link of a retry chain will do
        verbose: with tracebacks
        reveal: also what has a telling name, such as password; what its task keeps secret stays hidden
    """
    async with opened(common) as admin:
        detail = await admin.job(job_id, system=common.words, reveal=reveal)
    if common.json:
        common.out.emit(detail)
    else:
        show_job(detail, common, verbose=verbose)


@app.command(help_epilogue=epilogue("windlass jobs why 0192f0c1-2345-7890-8abc-def012345678"))
async def why(job_id: str, /, *, common: Common = Common()) -> None:
    """Why a job is not running: what keeps it waiting, until when, and what you can do about it.

    Args:
        job_id: the job's id
    """
    async with opened(common) as admin:
        found = await admin.why(job_id)
    if common.json:
        common.out.emit(found)
        return
    for reason in found.reasons:
        common.out.line((reason.kind.ljust(12), "bold"), "  ", reason.text)
        if reason.command is not None:
            common.out.line(" " * 14, (common.again(reason.command.removeprefix("windlass ")), "dim"))


@app.command(
    help_epilogue=epilogue("windlass jobs logs ID", "windlass jobs logs ID --follow", "windlass jobs logs ID --run 2")
)
async def logs(
    job_id: str,
    /,
    *,
    follow: Annotated[Flag, Parameter(alias="-f")] = False,
    run: int | None = None,
    common: Common = Common(),
) -> int:
    """What a job has logged: ctx.log, logging, and what a command has printed.

    Logs are files on the machine where the job ran, beside a SQLite store or below $WINDLASS_LOG_ROOT.

    Args:
        job_id: the job's id; any link of a retry chain will do
        follow: go on until the job has ended
        run: the number of the run, as in jobs show; else the last one that has logged something
    """
    if follow and (common.json or run is not None):
        raise InvalidInput("follow", "goes with neither --json nor --run: it shows what is logged from now on")
    async with opened(common) as admin:
        if follow:
            async for piece in admin.follow_logs(job_id):
                common.out.text(piece)
            return OK
        found = await admin.logs(job_id, run=run)
    if common.json:
        common.out.emit(found)
    elif found.text is not None:
        common.out.text(found.text)
    else:
        ran = f"run {found.run} on {found.worker_id}" if found.run is not None else "it has not run yet"
        common.out.note(
            f"nothing is logged here ({ran}); logs are on the machine of the worker, or WINDLASS_LOG_ROOT says where"
        )
    return OK if found.text is not None else FAILED


@app.command(help_epilogue=epilogue("windlass jobs retry ID", "windlass jobs retry ID1 ID2"))
async def retry(*job_ids: str, common: Common = Common()) -> int:
    """Run dead jobs again, with their whole allowance of attempts."""
    return await _each(job_ids, common, Admin.retry)


@app.command(help_epilogue=epilogue("windlass jobs run-now ID"))
async def run_now(*job_ids: str, common: Common = Common()) -> int:
    """Jobs that wait for their time are due at once."""
    return await _each(job_ids, common, Admin.run_now)


@app.command(help_epilogue=epilogue("windlass jobs cancel ID --reason 'wrong customer'"))
async def cancel(*job_ids: str, reason: str = "cancelled", common: Common = Common()) -> int:
    """Cancel queued jobs at once; ask running ones to stop."""
    return await _each(job_ids, common, lambda admin, job_id: admin.cancel(job_id, reason))


@app.command(help_epilogue=epilogue("windlass jobs move ID --top", "windlass jobs move ID --before OTHER --take-priority"))
async def move(
    job_id: str, to: End | None = None, /, *, top: Flag = False, bottom: Flag = False, before: str | None = None,
    after: str | None = None, take_priority: Flag = False, common: Common = Common(),
) -> int:  # fmt: skip
    """Put a queued job before, or behind, all others of its queue and priority, or directly beside one of them.

    Args:
        job_id: the job's id
        to: top or bottom, as --top and --bottom
        top: before all others
        bottom: behind all others
        before: directly before this job of the same queue
        after: directly behind this job of the same queue
        take_priority: beside a job of another priority, take that priority too
    """
    ends: list[End] = [to] if to is not None else []
    ends += ["top"] if top else []
    ends += ["bottom"] if bottom else []
    others: list[tuple[str, Side]] = [(before, "before")] if before is not None else []
    others += [(after, "after")] if after is not None else []
    if len(ends) + len(others) != 1:
        raise InvalidInput("move", "say one of --top, --bottom, --before OTHER, --after OTHER")
    if ends:
        return await _each((job_id,), common, lambda admin, one: admin.move(one, ends[0]))
    [(other, side)] = others
    return await _each(
        (job_id,), common, lambda admin, one: admin.move_beside(one, other, side, take_priority=take_priority)
    )  # fmt: skip


@app.command(help_epilogue=epilogue("windlass jobs swap ID OTHER"))
async def swap(job_id: str, other: str, /, *, common: Common = Common()) -> int:
    """Two queued jobs of one queue and priority change places."""
    return await _each((job_id,), common, lambda admin, one: admin.swap(one, other))


@app.command(help_epilogue=epilogue("windlass jobs priority ID 9"))
async def priority(
    job_id: str, number: Annotated[int, Parameter(allow_leading_hyphen=True)], /, *, common: Common = Common()
) -> int:
    """Give a queued job another priority, and the last place in it. Larger numbers go first.

    Args:
        job_id: the job's id
        number: the priority, 0 unless said otherwise; -5 is less urgent
    """
    return await _each((job_id,), common, lambda admin, one: admin.set_priority(one, number))


@app.command(help_epilogue=epilogue("windlass jobs delete ID"))
async def delete(*job_ids: str, common: Common = Common()) -> int:
    """Remove finished jobs for good, with their runs and their whole retry chains."""
    return await _each(job_ids, common, Admin.delete)


async def _each(job_ids: tuple[str, ...], common: Common, change: Callable[[Admin, str], Awaitable[Changed]]) -> int:
    """One after the other. One that is refused does not keep the others from being done."""
    if not job_ids:
        raise InvalidInput("job_ids", "name at least one job")
    done: list[Changed] = []
    failed: list[tuple[str, WindlassError]] = []
    async with opened(common) as admin:
        for job_id in job_ids:
            try:
                done.append(await change(admin, job_id))
            except (JobNotFound, Refused) as error:
                if len(job_ids) == 1:
                    raise
                failed.append((job_id, error))
    if common.json:
        common.out.emit(changed=done, refused={job_id: str(why) for job_id, why in failed})
    else:
        for one in done:
            common.out.line(one.job_id, "  ", one.what)
        for _, why in failed:
            common.out.note(f"error: {why}")
    if not failed:
        return OK
    return REFUSED if any(isinstance(why, Refused) for _, why in failed) else FAILED
