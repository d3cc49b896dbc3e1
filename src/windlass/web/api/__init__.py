"""Handlers of the JSON API, one module for each noun. Each takes a `Request` and answers a view."""
