"""Permissions of a project as a sorted list of facts, and the difference between two versions of it.

Each fact has a subject, what the subject may do, and the file and line that permit it.  Each kind of
fact defines which changes are *wider*, that is, permit more.  A change that cannot be decided counts as wider.  This package
never runs, imports or writes files of a project; only :mod:`covalt_git.authority.snapshots` reads them.
"""

from covalt_git.authority.comparison import Comparison, compare
from covalt_git.authority.facts import FactChange
from covalt_git.authority.snapshots import ProjectSnapshot, read_commit, read_files

__all__ = [
    "Comparison",
    "FactChange",
    "ProjectSnapshot",
    "compare",
    "read_commit",
    "read_files",
]
