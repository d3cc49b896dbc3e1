"""Handlers of the dashboard, one module for each screen. Each takes a `Request` and answers a `Page` or a `Redirect`."""
