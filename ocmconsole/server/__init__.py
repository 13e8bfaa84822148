"""The server process: sockets, TLS, HTTP, request threads, listeners, proxies, middleware, cache and log.

In: connections from agents, kubectl and browsers. Out: WSGI requests for Django, on a fixed pool of threads for each
listener, and streams on the event loop. Knows no kind and no page. Called by ``asgi``, ``settings`` and ``manage.py
serve``.
"""
