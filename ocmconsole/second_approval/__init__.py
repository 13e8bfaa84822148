"""Acts that take more than one person: proposed, approved by others, carried out; or refused.

In: an act as its service is about to do it, and the evidence of that moment. Out: leave to go on, with rows for its
transaction, or ``Waits``, which names the proposal. Called by the services and validators of the acts, inside of the
commit, and by the pages and commands that show what waits. Knows no kind and no page: who may approve an act, what its
evidence is and how it is done, its own module registers (``acts``).
"""
