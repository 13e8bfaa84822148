"""Work that follows from changes: reconcilers by kind, the outbox of work items, acts on many objects.

In: keys that commits and the clock put into the queue. Out: calls of reconcilers, each key by one worker at a time,
tried again until they succeed. Called by ``store`` (puts), by threads, Celery and ``manage.py work`` (drain).
"""
