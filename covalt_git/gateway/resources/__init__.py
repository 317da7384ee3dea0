"""MCP resources of the gateway: workspace files, manifests, and resources of toolsets."""
