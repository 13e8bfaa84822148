"""Requests that only agents send, answered on the event loop without Django: renewed leases, watches that come back.

In: a request that is exactly such a one; any other goes to Django. Out: its answer. Called by
``ocmconsole.server.request_threads``.
"""
