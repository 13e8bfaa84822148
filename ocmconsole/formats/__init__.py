"""How Django writes times that no template formats: those of Django admin, as the console writes them.

In: times and numbers. Out: text in British English with 24 hours. Called by Django (``FORMAT_MODULE_PATH``).
"""
