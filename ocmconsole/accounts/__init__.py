"""User accounts, groups and Django permissions: the only writers, each change with its audit entry.

In: an actor and what they want to give, take or change. Out: rows of django.contrib.auth and guardian; Forbidden where
somebody would give more than they hold. Called by pages, Django admin, commands and sign-in.
"""
