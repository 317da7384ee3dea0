"""``python -m covalt_git``: the command line, for where its script is not on the path."""

import os
import sys

# The current folder is often a clone of another author, whose `click.py` would be imported. Not if this package is in it,
# as in a checkout without an installation. Python itself has imported `runpy` by then: only `python -P` never looks here.
try:
    current = os.getcwd()  # noqa: PTH109 - pathlib is not imported yet, so it could be the clone's
except FileNotFoundError:  # it was deleted, and then Python does not search it
    current = ""
if current and sys.path[:1] == [current] and f"{current}/covalt_git/__main__.py" != __file__:
    del sys.path[0]

from covalt_git.cli import main

if __name__ == "__main__":
    main()
