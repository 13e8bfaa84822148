"""The process's environment as typed values: settings, durations, and the files of the hub's home.

In: environment variables and files. Out: values for ``ocmconsole.settings``, or ImproperlyConfigured with the name of
the variable. Called by ``settings``, by everything that prints or reads a duration, and by what keeps keys in the home.
"""
