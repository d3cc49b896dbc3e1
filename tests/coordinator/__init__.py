"""What workers of a fleet do beside running jobs."""
