"""A Placement that is not stored: drafts as addresses, forms and YAML, and what is pretended about the fleet.

In: what a person typed. Out: a draft that fits the schema, and clusters as they would be. Called by
``placements.pages.playground.playground_pages``; computes no decision of its own.
"""
