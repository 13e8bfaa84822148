"""Template tags and filters: icons, times, amounts, charts as SVG, heartbeats of a day.

In: values of a context. Out: safe HTML. Called by templates with ``{% load console charts timeline %}``.
"""
