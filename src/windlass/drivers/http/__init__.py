"""A store that `windlass serve` has, over HTTP: for workers on hosts that cannot, or must not, reach the database."""

from windlass.drivers.http.driver import HttpDriver

__all__ = ["HttpDriver"]
