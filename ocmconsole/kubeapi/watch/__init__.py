"""The change log and those who follow it: its tail, streams of events, and how processes wake each other.

In: committed changes, numbered by revision. Out: lines of watch events, wake-ups within and between processes,
compaction. Called by ``store`` after a commit, by ``http`` for watches, by the RBAC index and live pages.
"""
