"""`python -m windlass.testing.simulator`: a campaign over the real worker."""

import sys

from windlass.testing.simulator.real import real_worker
from windlass.testing.simulator.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], real_worker))
