"""The playground: a Placement that is not stored, what it would choose, its scores, and a review before it is saved.

In: requests. Out: HTML; what is saved goes through ``verbs``. Called by ``placements.urls``.
"""
