"""The scheduler's result in words: why a cluster is not chosen, what changed, in which state a Placement is. Pure.

In: a ``PlacementResult``, changes of clusters, a Placement's document. Out: reasons with the smallest change, causes,
status words. Called by ``placements.controller.evidence``, the debugger, pages and the playground.
"""
