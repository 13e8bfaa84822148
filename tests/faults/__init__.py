"""Faults of a hub of several servers, one after the other, with agents at work: what was lost, and how soon it was over.

No test itself: ``make faults`` (``python -m tests.faults``) makes docs/faults.md. Every part of the hub has a network
namespace of its own, so that any two can be cut apart; root is needed.
"""
