"""Proofs for drivers, and tools for tests. Install with `pip install windlass[testing]`."""
