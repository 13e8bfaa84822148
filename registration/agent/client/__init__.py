"""What an agent knows of an API server: where it is, how it is asked and watched, and how long to wait after a refusal.

In: a kubeconfig. Out: documents, watched collections, HubError. Serves hubs and the managed cluster alike. Called by
everything else here.
"""
