"""What surrounds the scheduler: the fleet in memory, one run, what it writes, its Events and history.

``placements.reconcilers`` runs it after writes. Pages and the debugger read through ``scheduling``, ``preview`` and
``history``.
"""
