"""How a cluster gets in and stays in: certificate requests, keys, decisions, policies, tokens, certificates.

Kind files are on this level. Rooms, from below: ``pki`` (signing), ``keys`` (what is known of keys), ``admission``
(validators), ``evidence`` (what is known of a request), ``approvals`` (decisions), ``policies``, ``certificates``,
``joining``.
"""
