"""Moving clusters between sets: what it would do, the bulk act, and its pages.

In: clusters and a set. Out: who gains and loses sight of what, computed before anything is written; one write a
cluster. Called by ``clustersets.urls`` and the bulk jobs of the machinery.
"""
