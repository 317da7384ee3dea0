"""Grants: what a user permits a toolset."""
