"""Run the few tests that have just failed once more, alone.

A test that fails beside others on a busy machine and passes alone tells of a race: in the test or in the code. It is named,
loudly, for somebody to look into, and does not stop a change that has nothing to do with it. A failure that repeats does,
and so do many at once. So a bug that shows only now and then can pass here: what was named has to be read. What hypothesis
has found it tries again first, so that a wrong answer of its kind fails again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")
MOST: Final = 3


def main(answer: int) -> int:
    """`answer`: what pytest has ended with. Only 1 says that all were run and some failed."""
    if answer != 1:
        return answer
    names = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if not 0 < len(names) <= MOST:
        print(
            f"{len(names)} failures are not run again: {'nothing says what failed' if not names else 'too many for a race'}"
        )
        return 1
    print("\nAgain, alone:", *names, sep="\n  ", flush=True)
    answer = subprocess.call([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *names])
    if answer == 0:
        print("\nA RACE: failed beside others, passed alone. Look into it:", *names, sep="\n  ")
    return answer


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
