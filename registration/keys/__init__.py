"""What the hub knows of keys and certificates: accepted keys, lines of keys, the register, whose certificate it is.

In: a client certificate or a name. Out: an Actor or Unauthorized; keys that were accepted before. Called by
authentication, admission, decisions and evidence.
"""
