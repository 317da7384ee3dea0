"""Tool definitions of MCP servers: listing, comparing and accepting them."""
