"""Calls of MCP servers: their definition for a chat, what they are started from, and what they need."""
