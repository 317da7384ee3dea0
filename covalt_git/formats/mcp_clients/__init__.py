"""Configuration files of MCP clients: their formats, their paths on this machine, and edits."""
