"""How a cluster is: heartbeats, silence, clocks, the hub's taints, and the word for its state, pure and as SQL.

In: renewals of leases, conditions of agents, the time. Out: Available=Unknown and taints, history of heartbeats,
``status.status_of``. Leases themselves are stored by ``clusters.renewals`` and ``clusters.kinds``. Called by the
clock (``clusters.tasks``), the work queue, and every page that names a state.
"""
