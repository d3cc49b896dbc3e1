"""The limits that Windlass is measured against: what a store can do when nothing stands in the way."""
