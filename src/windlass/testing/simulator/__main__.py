"""`python -m windlass.testing.simulator`: a campaign over the real worker."""

import signal
import sys

from windlass.testing.simulator.real import real_worker
from windlass.testing.simulator.run import main

if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):  # shells let what runs in the background ignore the first
        signal.signal(number, signal.default_int_handler)
    sys.exit(main(sys.argv[1:], real_worker))
