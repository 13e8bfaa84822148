"""Tokens: made and checked (pure), compared with the database, and the terms of bootstrap tokens.

In: a bearer token or the terms of a new one. Out: the service account or bootstrap user that it stands for;
Unauthorized. Called by authentication, TokenRequest, and the pages of tokens.
"""
