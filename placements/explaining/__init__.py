"""The scheduler's result in words: why a cluster is not chosen, what changed, in which state a Placement is. Pure."""
