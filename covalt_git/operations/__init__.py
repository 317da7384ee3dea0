"""Use cases of a project, each written once: the HTTP API, the CLI, the pages, MCP and Python call them."""
