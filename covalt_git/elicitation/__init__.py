"""Elicitation: a call that runs asks its user or its MCP client something, and gets the answer."""
