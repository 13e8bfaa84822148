"""The HTTP API: views of resources and of documents, from the request line to a verb, and back to a response.

In: Django requests of the API listener. Out: objects, lists, tables, watch streams, errors as Status. Each request
passes the hooks of Django REST framework (``hooks``) and becomes a ``Call`` (``api_calls``), its body a document
(``request_bodies``), its result a response (``responses``). Called by the API's URLs.
"""
