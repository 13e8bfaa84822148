"""What users may do with sets, asked for many at once, and whom a set reaches.

In: an actor, names of sets. Out: the names that they may join, bind, view; holders of these rights. Reads only. Called
by pages, previews of moves and bulk acts.
"""
