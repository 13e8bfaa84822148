"""What the hub knows of a request to join, and what it makes of it: Safe, Check or Blocked.

In: names of clusters. Out: evidence items and a verdict for each, from a bounded number of queries. Reads only. Called
by approvals and policies.
"""
