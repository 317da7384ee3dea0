"""Configuration files of MCP clients: their formats, their places on this machine, and edits of them."""
