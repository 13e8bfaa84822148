"""The change log and its follower, streams of events, and how processes wake each other.

In: committed changes, numbered by revision, and audit entries. Out: lines of watch events, notices for open pages,
wake-ups within and between processes. Called by ``store`` after a commit, by ``http`` for watches, by the
RBAC index and live pages.
"""
