"""Placements: which clusters of a namespace's bound sets are chosen, and why.

``pipeline.schedule`` takes a Placement, a ``Fleet`` and the time, and returns a ``PlacementResult``: the clusters
left after each step, scores, decision groups, conditions, and when to look again. It is pure: no module here reads a
database, a setting or a clock. Nothing is served yet: kinds, reconcilers and pages follow, and all of them will call
it.

In: a Placement, the clusters of its sets, the time. Out: the chosen clusters with the reason for each. Called by tests
alone so far.
"""
