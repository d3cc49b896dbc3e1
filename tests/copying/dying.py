"""A copier in a process of its own that kills itself at a chosen call:
`python dying.py SRC SCHEMA DST SCHEMA CALL NUMBER WAIT`.

CALL is a method of an end of the copy and `before` or `after`, as in `put:after`, or `never`. NUMBER says at which of these
calls. WAIT: seconds for running jobs; 0 abandons them.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from windlass.copying import Copy
from windlass.drivers.copying import End, open_end


class Quiet:
    def phase(self, what: str, total: int = 0) -> None: ...
    def done(self, rows: int) -> None: ...


def die_at(call: str, number: int) -> None:
    name, _, when = call.partition(":")
    real, met = getattr(End, name), [0]

    def observed(self: End, *args: Any, **options: Any) -> Any:
        met[0] += 1
        if met[0] == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = real(self, *args, **options)
        if met[0] == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(End, name, observed)


def main(src: str, src_schema: str, dst: str, dst_schema: str, call: str, number: str, wait: str = "0") -> None:
    if call != "never":
        die_at(call, int(number))
    source = open_end(src, **({"schema": src_schema} if src_schema else {}))
    target = open_end(dst, **({"schema": dst_schema} if dst_schema else {}))
    Copy(source, target, Quiet(), wait=int(wait) * 1_000_000, abandon=wait == "0").run()
    target.close()
    source.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
