"""``python -m covalt_git``: the command line, for where its script is not on the path."""

from covalt_git.cli import main

if __name__ == "__main__":
    main()
