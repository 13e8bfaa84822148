"""Django admin as an entry point of the API: resources are saved through verbs, lists sort and count no whole table.

In: forms and actions of Django admin. Out: calls of ``verbs`` and services, errors beside the field. Called by each
app's ``admin.py``, which Django finds by its name.
"""
