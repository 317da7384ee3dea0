"""Calls of tools: from the access check to the commit with the result."""
