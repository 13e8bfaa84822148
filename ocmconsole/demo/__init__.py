"""A fleet for looking at: made through the hub's own verbs, each act at its time, and kept alive by the clock.

In: how many clusters, from which seed. Out: clusters, requests, tokens and people as they would have come. ``building``
fills an empty hub, ``live`` adds a small fleet to one that serves and removes it. Called by ``manage.py demo``, the
demo page and the clock.
"""
