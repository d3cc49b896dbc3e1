"""What was stored stays what it was: through restarts, and through every way in which a job comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw

from client.test_encryption import keys
from windlass import Windlass
from windlass.admin import Admin
from windlass.clock import ManualClock
from windlass.context import Context
from windlass.drivers.values import Claim
from windlass.policies import Retry, fixed
from windlass.signals import Snooze

__all__ = ["keys"]
LEASE = 30_000_000


def test_a_pause_outlives_the_program_that_described_the_queue(tmp_path: Path) -> None:
    clock = ManualClock()

    def program() -> Windlass:
        app = Windlass(f"sqlite:///{tmp_path}/jobs.db", clock=clock, log_root="none")
        app.queue("mail", max_running=3)

        @app.task(queue="mail")
        async def send() -> None: ...

        return app

    async def main() -> None:
        async with program() as app:
            await app.tasks["send"].enqueue()
            assert await Admin(app.client).pause("mail")
        async with program() as app:
            await app.tasks["send"].enqueue()
            assert (await app.tick(10)).succeeded == 0
            assert await Admin(app.client).resume("mail")
        async with program() as app:
            assert (await app.tick(10)).succeeded == 2

    asyncio.run(main())


def test_an_encrypted_job_is_encrypted_once_however_often_it_comes_back(tmp_path: Path, keys: str) -> None:
    """Parked for want of a permit, snoozed, failed, lost, dead and replayed: each time the handler reads its argument."""
    clock = ManualClock()
    app = Windlass(f"sqlite:///{tmp_path}/jobs.db", clock=clock, key_file=keys, log_root="none", lease="30s")
    app.limit("one", 1)
    heard: list[str] = []

    @app.task(context=True, limits=("one",), retry=Retry(max_attempts=3, backoff=fixed("1s")))
    async def work(ctx: Context, text: str) -> str:
        heard.append(text)
        match len(heard):
            case 1:
                raise Snooze("1s")
            case 2 | 3:
                raise RuntimeError("again")
        return text

    @app.task(limits=("one",))
    async def hold() -> None: ...

    def stored(job_id: str) -> bytes:
        connection = apsw.Connection(f"{tmp_path}/jobs.db")
        try:
            [(payload,)] = connection.execute("select payload from jobs where id = ?", (job_id,))
            return bytes(payload)
        finally:
            connection.close()

    async def taken(token: str) -> list[str]:
        """By a worker that is gone the next moment."""
        wish = Claim(queues=("default",), limit=1, lease_for=LEASE, worker_id="gone", token=token)
        return [job.id for job in await app.client.driver.claim(wish, now=clock.now())]

    async def main() -> None:
        async with app:
            before = await hold.enqueue()
            assert await taken("t1") == [before.id]
            job = await work.enqueue("secret")
            first = stored(job.id)
            await app.tick()
            assert (heard, (await job.fetch()).parked_on) == ([], "key:one")
            await before.cancel()
            clock.advance(LEASE)
            await app.tick()  # ends the one before, whose worker is gone
            await until_heard(1)
            assert await taken("t2") == [job.id]
            clock.advance(LEASE)
            await until_heard(3)
            assert ((await job.fetch()).state, (await job.fetch()).lost) == ("dead", 1)
            await job.retry()
            await until_heard(4)
            assert await job.result(timeout=5) == "secret"
            assert (set(heard), stored(job.id)) == ({"secret"}, first)

    async def until_heard(times: int) -> None:
        for _ in range(9):
            if len(heard) < times:
                await app.tick()
            clock.advance("1s")
        assert len(heard) == times

    asyncio.run(main())
