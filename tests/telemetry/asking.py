"""One request to the port of a worker, and its answer."""

from __future__ import annotations

import asyncio

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families


async def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    return await send(port, f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


async def send(port: int, request: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = (await asyncio.wait_for(reader.read(), 10)).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split(" ")[1]) if head else 0, body


def read(text: str) -> dict[str, Metric]:
    """By somebody else's reader. It names a counter without its `_total`."""
    return {metric.name: metric for metric in text_string_to_metric_families(text)}


def numbers(metric: Metric, suffix: str = "") -> dict[tuple[str, ...], float]:
    """By the values of the labels."""
    return {tuple(s.labels.values()): s.value for s in metric.samples if s.name == metric.name + suffix}
