"""MCP resources of the gateway: workspace files, commits, and resources of toolsets."""
