"""What a project permits, as a sorted list of facts; and what a change of its files newly permits.

Every fact names who may do what, and the file and line that say so.  Two states of a project are
compared by the difference of their facts: each kind of fact knows which way is wider, and what
cannot be decided counts as wider.  Nothing here runs, imports or writes anything of a project; only
:mod:`covalt_git.authority.snapshots` reads one.
"""

from covalt_git.authority.comparison import Comparison, compare
from covalt_git.authority.facts import Change, Fact, Place
from covalt_git.authority.snapshots import State, state_at, state_here

__all__ = ["Change", "Comparison", "Fact", "Place", "State", "compare", "state_at", "state_here"]
