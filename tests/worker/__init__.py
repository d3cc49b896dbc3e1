"""The worker under attack: handlers, leases, settlements, shutdown, and stores that fail at the worst moment."""
