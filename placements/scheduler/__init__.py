"""The scheduler's steps: which clusters a Placement chooses, from sets to decision groups. Pure.

In: documents of a Placement, of clusters and scores, present decisions, the time. Out: ``PlacementResult``, by
``pipeline.schedule``, which runs the steps in upstream's order (P5 to P23). Called by ``placements.controller``, the
debugger and the playground; no database, no clock.
"""
