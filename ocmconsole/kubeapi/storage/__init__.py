"""Reading stored rows, and the audit: pages of a kind, selectors as SQL, audit entries and their hash chain.

In: rows and selectors. Out: documents in pages, audit rows. The only writer of resources is ``store.commit`` in
``ocmconsole.kubeapi.writes``. Called by ``verbs``, ``writes``, ``http``, ``watch`` and by queries of apps.
"""
