"""Merges of a chat's branches, their conflicts, and the decisions of users about conflicts."""
