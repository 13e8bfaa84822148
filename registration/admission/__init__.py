"""Validators of certificate requests, of decisions, and of what a bootstrap token creates.

In: actor, old and new document. Out: an ApiError, or rows that are saved with the write. They read and never write. Run
by ``kubeapi.admission`` at every write, whatever the entry point.
"""
