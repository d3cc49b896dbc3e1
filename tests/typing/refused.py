"""What type checkers must refuse: every marked line, by mypy --strict and by pyright, and no other line."""

from __future__ import annotations

from windlass import Cancel, Context, Retry, Snooze, Windlass

app = Windlass("memory://")


@app.task
async def send(to: str, *, subject: str = "Hello") -> int:
    return len(to + subject)


@app.task(priority=1)
def add(a: int, b: int) -> int:
    return a + b


@app.task(context=True)
async def render(ctx: Context, path: str) -> int:
    return len(path)


async def wrong_arguments() -> None:
    await send.enqueue(5)  # expect-error
    await send.enqueue()  # expect-error
    await send.enqueue("ada", "Hi")  # expect-error
    await send.enqueue("ada", title="Hi")  # expect-error
    await send.enqueue("ada", subject=None)  # expect-error
    send.enqueue_sync(b"ada")  # expect-error
    add.enqueue_sync(1)  # expect-error
    add.enqueue_sync(1, "2")  # expect-error
    add.job(1, 2, 3)  # expect-error
    await add.using(priority=2).enqueue("1", 2)  # expect-error
    await app.enqueue_many([add.job(1, c=2)])  # expect-error
    await app.enqueue_many([send])  # expect-error


async def wrong_context(ctx: Context) -> None:
    await render.enqueue(ctx, "p")  # expect-error
    await render.enqueue("p", ctx=ctx)  # expect-error
    await render("p")  # expect-error
    render.job(ctx, path="p")  # expect-error


@app.task(context=True)  # expect-error
async def has_no_context(path: str) -> None: ...


async def wrong_options() -> None:
    send.using(prioritty=1)  # expect-error
    send.using(delay=[])  # expect-error
    send.using(on_duplicate="explode")  # expect-error
    send.using(name="other")  # expect-error
    send.using(retry=3)  # expect-error
    app.queue("mail", preset="celery")  # expect-error
    Windlass("memory://", leese="30s")  # expect-error


@app.task(colour="red")  # expect-error
async def unknown_option() -> None: ...


@app.task(run="fork")  # expect-error
async def unknown_runner() -> None: ...


@app.task(delay="5m")  # expect-error
async def option_of_a_job() -> None: ...


@app.task
async def returns_a_signal() -> int:
    return Snooze("5m")  # expect-error


@app.task
def returns_another_signal(n: int) -> str:
    if n:
        return Cancel("no")  # expect-error
    raise Cancel("no")


async def wrong_results() -> None:
    job = await send.enqueue("ada")
    text: str = await job.result()  # expect-error
    print(text)
    await job.move("middle")  # expect-error
    await job.words("celery")  # expect-error
    add(1, "2")  # expect-error
    (await send("ada")).upper()  # expect-error
    Retry(5)  # expect-error
