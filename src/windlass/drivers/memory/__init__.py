"""Jobs in dictionaries: the executable specification, and `memory://`.

One module per concern, named like those of the SQL drivers, each a set of functions over `Tables`. A store that keeps its
rows as values (a JSON file, a key-value server) can use them as they are; see examples/json_driver.py.
"""

from windlass.drivers.memory.driver import MemoryDriver

__all__ = ["MemoryDriver"]
