"""The lease path: GET and PUT of a cluster's own lease by its agent, many at a time, without verbs and the ORM.

In: requests that ``ocmconsole.server.agents.lease_path`` took for an agent's, with the certificates that they show.
Out: the same answers and rows as by ``verbs``, or None for whatever is not exactly an agent's renewal: that goes the
ordinary way. Called by ``ocmconsole.asgi``.
"""
