"""Adding a cluster: the wizard, bootstrap tokens and their forms.

In: requests. Out: HTML with the commands to run. What these say is in ``registration.join_guide``. Called by
``registration.urls``.
"""
