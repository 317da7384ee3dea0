"""Primitives of files and processes that all packages share."""
