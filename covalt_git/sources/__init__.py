"""Tools that MCP servers list, refreshed and compared."""
