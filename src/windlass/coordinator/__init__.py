"""What workers of a fleet do beside running jobs: be known, elect a leader, and as the leader keep the store in order."""

from windlass.coordinator.coordinator import Coordinator

__all__ = ["Coordinator"]
