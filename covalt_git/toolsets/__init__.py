"""Toolsets of a project and their state."""
