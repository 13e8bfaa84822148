"""From a bootstrap kubeconfig to a certificate of the hub, and where both are kept (G2 to G24).

In: bootstrap kubeconfigs, a hub that answers. Out: the five files of a hub in a folder or a Secret. Called by
``agent``; ``steady_state`` asks for later certificates with it.
"""
