"""Merges of a chat's branches: three trees into one, their conflicts, and how these are decided."""
