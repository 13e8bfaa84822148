"""The scheduler's steps: which clusters a Placement chooses, from sets to decision groups. Pure.

``pipeline.schedule`` runs them in upstream's order (P5 to P23). ``fleet`` reads documents; no database, no clock.
"""
