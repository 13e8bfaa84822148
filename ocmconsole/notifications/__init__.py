"""Notifications: what happens on the hub goes to people by webhook, mail and chat, as the rules of each channel say.

In: audit entries, transitions of clusters and times that were passed, each read from a stored position; channels and
rules that hub admins keep. Out: one message for each kind, set and minute, and a delivery of it for each channel, sent
by ``kubeapi.outbound``. Run by threads of ``embedded``; the pages call the services.
"""
