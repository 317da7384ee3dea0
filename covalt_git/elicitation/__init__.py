"""Elicitation: requests of a running call to its user or MCP client, and the responses."""
