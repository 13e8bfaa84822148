"""What is encrypted in the database: the keys, the form of the text, and where such texts are.

In: texts, whose they are, and a source of keys, which the project gives. Out: encrypted texts, and how many there are
with which key. Called by models, ``reader``, ``store``, ``change_log`` and ``reencryption``, and by sign-in.
"""
