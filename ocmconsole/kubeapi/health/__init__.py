"""How the hub itself is: probes, outages of the database, space on the disk, metrics, who met a limit.

In: a look each second at database, disk, Redis, worker and clock. Out: /livez, /readyz and /healthz from memory,
refusals with 503 or 507, Prometheus text. Called by the server, by ``store`` and by the page about the hub's health.
"""
