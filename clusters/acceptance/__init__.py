"""What a cluster gets when it is accepted, keeps for its clean-up, and loses when it is sent away or deleted.

In: ManagedClusters by key. Out: namespace, roles and bindings of its agents, conditions, finalizers, deletions in
order. Called by the work queue; ``withdrawal`` by the write that un-accepts or deletes, in its transaction;
``removal_progress`` by the pages that say why a delete waits. Who may accept is a rule of ``clusters.admission``.
"""
