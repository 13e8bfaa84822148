"""Automatic approval: policies, what each fits, what one would have done, and the reconciler that decides by them.

In: a request and its evidence. Out: the same acts as a person's, as the person who wrote the policy. Called by the work
queue; pages.
"""
