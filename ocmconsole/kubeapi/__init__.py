"""The Kubernetes API machinery: every read and write of every kind. It knows no kind by name and no page.

The heart is on this level: ``verbs`` (get, create, update, patch, delete), ``steps``, ``admission``, ``kinds`` (the
registry), ``models``, ``errors``; and in ``writes``: ``store.commit`` (the writer) and ``renewals`` (of leases). Rooms
below it: ``encryption``, ``schema``, ``storage``, ``formats``, ``watch``, ``access``, ``health``, ``outbound``,
``control``; above it: ``publish`` and ``http``. Apps register kinds, validators, authorizers and reconcilers here. In:
calls of ``verbs`` with an actor. Out: documents, or an ApiError; changes, audit entries and work items in the same
commit. Called by every app and entry point.
"""
