"""`windlass bench`: how fast is a store on this machine? A short set, on a place of its own that is gone afterwards."""

from windlass.bench.parts import Figure, measured, parts_of
from windlass.bench.place import Place, place_for

__all__ = ["Figure", "Place", "measured", "parts_of", "place_for"]
