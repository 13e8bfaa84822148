"""The list of clusters at any size: filters, facets, columns, saved views, claims, bulk acts, exports; its pages.

In: the parameters of a URL and an actor. Out: one page of clusters and counts, in a bounded number of queries. Called
by ``clusters.urls``; bulk acts by the bulk jobs of the machinery.
"""
