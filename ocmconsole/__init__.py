"""The Django project: settings, URLs, applications for each listener, the clock, and the rooms of the hub itself.

In: the environment, and requests of both listeners. Out: a served hub. Called by ``manage.py``, uvicorn and Celery. The
apps beside it (``clusters clustersets placements registration``) hold the kinds of OCM; contracts in pyproject.toml say
which rooms may import them.
"""
