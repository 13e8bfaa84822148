"""What an agent does with its own certificate: heartbeats, status, rotation (G25 to G45).

In: kept files of a hub, facts of the managed cluster. Out: leases, status and certificate requests on the hub; the
reason to begin anew. Called by ``agent``.
"""
