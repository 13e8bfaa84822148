"""Kinds that every Kubernetes API server has: namespaces, RBAC, service accounts, tokens, secrets, events, reviews.

The kind files (``models schemas wire kinds admission reconcilers``) have the same duties as in every app. Rights in
memory are in ``rbac``, credentials in ``tokens``. The app's label stays ``corekinds``. In: documents and
credentials. Out: stored kinds, rules for authorization, actors of tokens. Called by apps that need these kinds,
through ``verbs``.
"""
