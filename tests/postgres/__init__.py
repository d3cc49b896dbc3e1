"""Real PostgreSQL servers for tests, private to one test process and gone with it."""
