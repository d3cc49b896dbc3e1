"""Where jobs are stored. Drivers provide storage and primitive transitions; every decision is made in core."""
