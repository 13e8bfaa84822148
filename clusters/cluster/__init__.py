"""The pages of one cluster: their frame, a module a tab, and the pages of its acts.

In: a request and the name of a cluster. Out: HTML, or the page of a cluster that is gone. Other apps add tabs of their
own to the frame. Called by ``clusters.urls``.
"""
