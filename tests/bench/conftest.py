"""The scripts of the benchmark import each other by name, as they do when one of them is run."""

from __future__ import annotations

import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
sys.path.append(str(BENCH))
