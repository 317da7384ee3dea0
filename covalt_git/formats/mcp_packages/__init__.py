"""The formats of packaged MCP servers: ``server.json`` of the registry, and MCPB bundles."""
