"""Who may do what, and why: presets, giving and taking rights, requests for access, risky grants; its pages.

In: an actor and a question or an act. Out: holders with the source of each right, explanations, changed bindings and
permissions. Decides nothing itself: that is ``kubeapi.access.authorization``. Called by its pages and by pages that
offer to ask for access.
"""
