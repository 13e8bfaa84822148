"""Who acts and whether they may: actors, authentication, the chain of authorizers, sessions, limits of an identity.

In: certificates, tokens, sessions. Out: an ``Actor``; an ``AccessDecision`` about ``Attributes``. Authorizers register
themselves with ``authorization.authorizer``; the first yes wins. Called by ``verbs``, ``http``, pages and validators.
"""
