"""`python -m windlass` is the `windlass` command."""

import sys

from windlass.cli import main

if __name__ == "__main__":
    sys.exit(main())
