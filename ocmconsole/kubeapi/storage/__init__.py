"""Reading stored rows, and the audit: pages of a kind, selectors as SQL, audit entries and their hash chain.

In: rows and selectors. Out: documents in pages, audit rows. The only writer of resources is ``store.commit``, one level
up. Called by ``verbs``, ``store``, ``http``, ``watch`` and by queries of apps.
"""
