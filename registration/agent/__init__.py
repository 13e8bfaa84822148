"""The registration agent: brings one cluster to a hub of Open Cluster Management and keeps it there.

In: bootstrap kubeconfigs of one or several hubs, the API of the managed cluster. Out: a ManagedCluster, certificate
requests, heartbeats and status on the hub; the hub's kubeconfig in a folder or a Secret. Run by the command
``ocmconsole-agent`` and by ``manage.py simulate_fleet``. It imports nothing of the hub and no Django: the distribution
``ocmconsole-agent`` installs this folder alone, under the name ``ocmconsole_agent``, hence relative imports here.
"""
