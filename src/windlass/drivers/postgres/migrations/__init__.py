"""Schema steps of the PostgreSQL store, applied in their order."""
