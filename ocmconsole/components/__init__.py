"""What pages of every app are made of: addresses, downloads, YAML editing, refusals, error pages, Events with audit.

In: documents, errors, rows. Out: parts of pages and responses. Knows no kind of OCM. Called by views; templates that
belong to it are in ``templates/components``.
"""
