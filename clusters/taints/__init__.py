"""Taints and labels as people edit them: which the hub keeps, maintenance as a taint, edits that may be taken back.

In: the taints of a document and an edit. Out: the changed list, or a refusal; the audit entry that can be undone.
Called by ``services``, by queries (maintenance) and by the tabs of a cluster.
"""
