"""Grants: permissions that a user gives to a toolset."""
