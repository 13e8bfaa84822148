"""Structural schemas and what may stand in an object: names, metadata, values, quantities, times, conditions.

In: documents as dicts. Out: the pruned and defaulted document, or the causes of a 422. Pure: no database, no clock, no
setting. Called by ``verbs`` and ``steps``, by admission rules, and by ``publish``, which prints the schemas.
"""
