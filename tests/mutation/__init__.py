"""Bugs planted by a machine, every one that its operators can make: see `__main__.py`."""
