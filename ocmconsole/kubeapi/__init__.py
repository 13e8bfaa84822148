"""The Kubernetes API machinery: every read and write of every kind. It knows no kind by name and no page.

The heart is on this level: ``verbs`` (get, create, update, patch, delete), ``steps``, ``admission``, ``store.commit``
(the only writer), ``kinds`` (the registry), ``models``, ``errors``. Rooms below it: ``schema``, ``storage``,
``formats``, ``watch``, ``access``, ``health``, ``control``; above it: ``publish`` and ``http``. Apps register kinds,
rules, authorizers and reconcilers here.
"""
