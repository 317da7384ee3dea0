"""Old addresses of pages, from when all documents were in one folder, and the pages that have their texts now."""

_MOVED = {
    "architecture": "project/architecture",
    "audit": "how-to/audit",
    "authority": "how-to/authority",
    "chats": "how-to/chats",
    "design/chat-store": "reference/chat-store",
    "design/runtime": "explanation/runtime",
    "glossary": "reference/glossary",
    "graphql": "how-to/graphql",
    "issuers": "how-to/issuers",
    "mcp": "how-to/agents",
    "move-your-tools": "how-to/move-your-tools",
    "plugins": "how-to/plugins",
    "policy": "how-to/policy",
    "problems": "reference/problems",
    "promises": "project/promises",
    "python-api": "reference/python-api",
    "registry": "how-to/registry",
    "scripts": "how-to/scripts",
    "security": "explanation/security",
    "server": "how-to/server",
    "servers": "how-to/mcp-servers",
    "sources": "how-to/rest-apis",
    "specification": "project/specification",
    "stress": "project/stress",
    "tenets": "project/tenets",
    "toolsets": "reference/toolset-yaml",
    "validation": "how-to/validation",
}
REDIRECTS = {
    old: f"{'../' * old.count('/')}{new}.html"  # relative to the old page, as a file and on each host
    for old, new in _MOVED.items()
}
