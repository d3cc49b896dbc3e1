"""Invoices that are charged once, whatever dies on the way. `test_billing.py` beside it is how one knows."""

from windlass import Retry, Windlass, fixed

app = Windlass()


class Bank:
    """Stands for a payment provider: whatever is asked with a key that it has seen, it does not do again."""

    def __init__(self) -> None:
        self.charged: dict[str, int] = {}
        self.requests = 0

    def charge(self, key: str, cents: int) -> None:
        self.requests += 1
        self.charged.setdefault(key, cents)


bank = Bank()
letters: list[str] = []


@app.task(queue="billing", retry=Retry(max_retries=5, backoff=fixed("1m")))
def charge(invoice: int, cents: int) -> None:
    bank.charge(f"invoice-{invoice}", cents)
    receipt.using(idempotency_key=f"receipt-{invoice}").enqueue_sync(invoice)


@app.task(queue="mail")
async def receipt(invoice: int) -> None:
    letters.append(f"receipt for {invoice}")


@app.task(queue="mail")
async def reminder(invoice: int) -> None:
    letters.append(f"how was {invoice}?")


@app.cron("0 9 * * MON", tz="Europe/Berlin")
@app.task(queue="mail", crash_policy="fail", retry=Retry(max_retries=0))
async def newsletter() -> None:
    """Rather not at all than twice."""
    letters.append("newsletter")


async def order(invoice: int, cents: int) -> None:
    """What a web request does: charge now, and ask in two weeks."""
    await charge.using(idempotency_key=f"charge-{invoice}").enqueue(invoice, cents)
    await reminder.using(delay="14d", idempotency_key=f"reminder-{invoice}").enqueue(invoice)
