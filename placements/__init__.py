"""Placements: which clusters of a namespace's bound sets are chosen, and why.

Kind files are on this level, with ``reconcilers``, which writes what a run decides. ``scheduler.pipeline.schedule``
takes a Placement, a ``Fleet`` and the time, and returns a ``PlacementResult``: the clusters left after each step,
scores, decision groups, conditions, and when to look again. The room ``controller`` reads the fleet for it,
``explaining`` puts results into words; reconciler, debugger, pages and playground call the same function.

In: Placements, AddOnPlacementScores, clusters, sets and bindings, by ``verbs`` and the change log; the time. Out:
PlacementDecisions, conditions, the chosen clusters with the reason for each. Called by the work queue and the clock.
"""
