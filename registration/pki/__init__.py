"""Signing: the hub's certificate authority, reading X.509 requests and certificates, names of agents, kubeconfigs.

In: PEM of requests and certificates. Out: certificates, facts about them, kubeconfigs. No rule and no decision is here.
Called by the reconciler that signs, by ``keys``, and at the hub's first start.
"""
