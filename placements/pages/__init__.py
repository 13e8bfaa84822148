"""The pages of placements: list, one placement, the playground.

In: requests. Out: HTML; what is saved goes through ``verbs``. Called by ``placements.urls``.
"""
