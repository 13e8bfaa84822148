"""How a write is made: from a proposed document to a commit.

In: what a caller sends (``proposals``), fields that a controller names (``amendments``), several of both (``batches``).
Out: one transaction by ``store.commit``, which writers that come together share (``group_commit``); ``renewals`` is the
one other writer. Called by ``ocmconsole.kubeapi.verbs`` and the lease path alone.
"""
