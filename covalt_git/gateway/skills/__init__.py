"""MCP extension for skills (SEP-2640): skills of toolsets and accepted skills of servers, for agents."""
