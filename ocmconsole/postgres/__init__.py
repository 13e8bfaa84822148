"""Django's PostgreSQL backend, whose waiting ends when the server is known to be away.

In: statements of Django. Out: their results, or OperationalError at once instead of after minutes. Called by Django,
which finds it by the setting ``ENGINE``.
"""
