"""``covalt-git chat``: one module for each group of its commands."""
