"""Schema steps of the SQLite store, applied in their order."""
