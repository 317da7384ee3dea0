"""Resources, templates and prompts of MCP servers, as they are offered on to agents."""
