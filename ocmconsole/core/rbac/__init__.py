"""RBAC: all rules in memory, one rule as a value, no escalation, and the same answers for Django's ``has_perm``.

In: Roles, ClusterRoles, their bindings, from the change log. Out: an ``AccessDecision`` for the chain of authorizers.
Called by ``kubeapi.access.authorization`` and Django's authentication backends.
"""
