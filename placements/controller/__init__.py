"""What surrounds the scheduler: the fleet in memory, one run, what it writes, its Events and history.

In: a Placement, rows and the change log, the time. Out: PlacementDecisions in a safe order (K16), Events, metrics, rows
of history. Called by ``placements.reconcilers`` after writes; pages and the debugger read through ``scheduling``,
``preview`` and ``history``.
"""
