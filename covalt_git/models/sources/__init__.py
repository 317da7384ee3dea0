"""Models of what the tools of sources and MCP servers rest on: their definitions, commands, digests and locks."""
