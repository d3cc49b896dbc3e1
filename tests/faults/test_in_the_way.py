"""Who is stopped with a lock in hand is in everybody's way; transactions that come and go are nobody's."""

from __future__ import annotations

import threading

import psycopg

from postgres.server import Server

from .stores import PostgresStore


def test_only_a_transaction_that_stays_is_in_the_way(postgres_server: Server) -> None:
    store = PostgresStore(postgres_server)
    over = threading.Event()

    def come_and_go() -> None:
        with psycopg.connect(store.direct) as connection:
            while not over.is_set():
                connection.execute("select pg_sleep(0.02)")
                connection.commit()

    living = threading.Thread(target=come_and_go)
    with psycopg.connect(store.direct, options="-c search_path=public") as stopped:
        living.start()
        try:
            assert all(store.nobody_is_in_the_way() for _ in range(5))
            stopped.execute("select 1")
            assert not store.nobody_is_in_the_way()
            stopped.rollback()
            assert store.nobody_is_in_the_way()
        finally:
            over.set()
            living.join()
            store.close()
