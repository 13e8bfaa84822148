"""Decisions on requests to join: inbox, accept, decline, disconnect, snooze, for one and for many; its pages.

In: an actor, a request and the versions that they have seen. Out: one commit with the decision; Conflict when something
changed. Called by pages, Django admin, ``manage.py accept`` and policies, all through ``services``.
"""
