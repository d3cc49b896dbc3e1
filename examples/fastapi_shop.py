"""A FastAPI application whose orders and jobs are one transaction, with the dashboard under /windlass. Try:

uvicorn fastapi_shop:api
windlass worker fastapi_shop:jobs
"""

import hmac
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException
from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from starlette.requests import Request

from windlass import Context, Windlass
from windlass.asgi import jobs_of, lifespan
from windlass.errors import JobNotFound
from windlass.principal import Principal
from windlass.web.access import Access
from windlass.web.app import web_app

FILE = os.environ.get("SHOP_FILE", "shop.db")
jobs = Windlass(f"sqlite:///{FILE}", sqlite="stdlib")  # the library that SQLAlchemy uses on the same file
engine = create_engine(f"sqlite:///{FILE}")


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    shipped: Mapped[bool] = mapped_column(default=False)


@jobs.resource
def database() -> Iterator[Engine]:
    """What handlers share: the worker opens it once."""
    yield engine
    engine.dispose()


@jobs.task(context=True)
def ship(ctx: Context, order_id: int) -> str:
    with Session(ctx.resource(Engine)) as session, session.begin():
        order = session.get_one(Order, order_id)
        order.shipped = True
        return f"shipped {order.item}"


@asynccontextmanager
async def tables(api: FastAPI) -> AsyncIterator[None]:
    Base.metadata.create_all(engine)
    yield
    engine.dispose()


async def staff(request: Request) -> Principal | None:
    """Who may see the dashboard. Ask your own sessions here; this one knows a single password."""
    key = os.environ.get("SHOP_STAFF_KEY")
    if key and hmac.compare_digest(request.headers.get("x-staff-key", "").encode(), key.encode()):
        return Principal(actor="staff", scopes=frozenset({"operate"}))
    return None


def session() -> Iterator[Session]:
    with Session(engine) as opened, opened.begin():
        yield opened


api = FastAPI(lifespan=lifespan(jobs, around=tables))
api.mount("/windlass", web_app(jobs, access=Access(authenticate=staff, hosts=("127.0.0.1", "localhost", "testserver"))))


@api.post("/orders/{item}", status_code=202)
def order(item: str, db: Annotated[Session, Depends(session, scope="function")]) -> dict[str, object]:
    made = Order(item=item)
    db.add(made)
    db.flush()
    job = ship.using(conn=db).enqueue_sync(made.id)  # in the session's own transaction
    if item == "unicorn":
        raise HTTPException(404, "there are none")
    return {"order": made.id, "job": job.id}


@api.get("/jobs/{job_id}")
async def job(job_id: str, app: Annotated[Windlass, Depends(jobs_of)]) -> dict[str, object]:
    try:
        found = await app.job(job_id).fetch()
    except JobNotFound:
        raise HTTPException(404, "no such job") from None
    return {"state": found.state, "error": found.last_error or None}
