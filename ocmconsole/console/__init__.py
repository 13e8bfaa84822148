"""Pages of the whole hub: shell, navigation, overview, attention, search, activity, bulk jobs, hub health.

In: requests of the console's listener, a signed-in user. Out: HTML. Reads what the apps below say of themselves. Called
by ``ocmconsole.urls``; ``checkup`` also by ``manage.py doctor``.
"""
