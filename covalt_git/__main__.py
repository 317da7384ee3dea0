"""``python -m covalt_git``: the command line, for where its script is not on the path."""

from covalt_git.cli import run

if __name__ == "__main__":
    run()
