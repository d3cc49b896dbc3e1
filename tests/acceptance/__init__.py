"""What each source system promised, tried on its preset and in its own words."""
