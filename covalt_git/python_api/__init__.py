"""The public Python API, a face of the operations beside the CLI, the server and MCP."""
