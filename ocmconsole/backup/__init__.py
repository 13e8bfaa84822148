"""Backup: one encrypted archive of everything a hub is, and the proof that it can be read again.

In: the home and the database that the settings name, and a passphrase or a key of age. Out: a file, or a
``BackupError`` of one sentence that says what is wrong and what to do; then nothing has changed. Called by commands, by
the clock, and by threads of each server and worker.
"""
