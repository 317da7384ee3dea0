"""covalt-git: an AI assistant's tools and its work, kept in Git."""

__version__ = "0.1.0"
