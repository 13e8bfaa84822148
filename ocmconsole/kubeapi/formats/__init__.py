"""Media types, and the shapes that documents travel in: JSON, YAML, protobuf, patches, server-side apply, tables.

In: bytes of clients, bounded in size and depth. Out: dicts, or an ApiError; and back. Pure. Called by ``http`` and
``steps``.
"""
