"""A worker in plain Python: no Windlass, no library, only HTTP and JSON. It runs beside any `windlass serve`:
WINDLASS_SERVER=http://127.0.0.1:8420 WINDLASS_TOKEN=wl_… python remote_worker.py"""

import base64
import json
import os
import threading
import time
import urllib.error
import urllib.request
import uuid
from typing import Any

SERVER = os.environ.get("WINDLASS_SERVER", "http://127.0.0.1:8420").rstrip("/") + "/api/worker/v1"
HEADERS = {"Authorization": f"Bearer {os.environ.get('WINDLASS_TOKEN', '')}", "Content-Type": "application/json"}
QUEUES = os.environ.get("WINDLASS_QUEUES", "default").split(",")
LEASE = 30  # seconds that a job is ours without a word from us
HANDLERS = {"add": lambda a, b: a + b, "divide": lambda a, b: a / b}  # by the types of jobs


def ask(path: str, **said: Any) -> Any:
    """Say it until there is an answer. What is said twice after a lost reply counts once."""
    while True:
        request = urllib.request.Request(f"{SERVER}/{path}", json.dumps(said).encode(), HEADERS)  # noqa: S310 - our own URL
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code < 500 and error.code != 429:
                raise SystemExit(f"{error.code}: {error.read().decode()}") from None
        except OSError as error:
            print(f"{SERVER} does not answer: {error}", flush=True)
        time.sleep(1)


def keep(lease: dict[str, str], done: threading.Event) -> None:
    """Renew the lease while the work goes on."""
    while not done.wait(LEASE / 3):
        ask("extend", renewals=[lease], lease=LEASE)


def run(job: dict[str, Any]) -> None:
    lease, done = {"id": job["id"], "token": job["token"]}, threading.Event()
    threading.Thread(target=keep, args=(lease, done), daemon=True).start()
    try:
        result = HANDLERS[job["type"]](**json.loads(base64.b64decode(job["payload"])))
        [told] = ask("finish", ended=[{**lease, "outcome": "succeeded", "result": result}])
    except Exception as error:  # whether it is tried again, and when, is decided by the rules stored with the job
        [told] = ask("finish", ended=[{**lease, "outcome": "failed", "error": repr(error)}])
    done.set()
    print(f"{job['type']} {job['id']}: {told['answer']}, {told['state']}", flush=True)


while True:
    wish = {"worker_id": f"plain:{os.getpid()}", "token": uuid.uuid4().hex, "queues": QUEUES, "types": [*HANDLERS]}
    taken = ask("claim", **wish, lease=LEASE)
    for job in taken["jobs"]:
        run(job)
    if not taken["jobs"]:
        ask("wait", timeout=20, wake=taken["wake"])
