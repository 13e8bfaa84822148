"""How a cluster gets in and stays in: certificate requests, keys, decisions, policies, tokens, certificates.

Kind files are on this level. In: certificate requests and clusters of agents, decisions of people. Out: certificates,
accepted clusters, the register of both. Called by ``ocmconsole.console``, ``ocmconsole.demo`` and ``ocmconsole.urls``.
Rooms, from below: ``pki`` (signing), ``keys`` (what is known of keys), ``admission``
(validators), ``evidence`` (what is known of a request), ``approvals`` (decisions), ``policies``, ``certificates``,
``joining``, ``simulation``; ``agent`` stands alone.
"""
