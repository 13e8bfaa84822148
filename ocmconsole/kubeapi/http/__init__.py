"""The HTTP API: one view for every path, from the request line to a verb, and back to a response or a Status.

In: Django requests of the API listener. Out: objects, lists, tables, watch streams, errors as Status. Each request
becomes an ``ApiCall`` (``api_calls``), its body a document (``request_bodies``), its result a response (``responses``).
Called by the API's URLs.
"""
