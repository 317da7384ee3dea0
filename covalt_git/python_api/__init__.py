"""The public Python API, which calls the same operations as the CLI, the server and MCP."""
