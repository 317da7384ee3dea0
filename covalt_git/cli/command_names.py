"""Names of all commands, so that a hint can name them without importing the groups, which takes seconds."""

from __future__ import annotations

from typing import Final

COMMANDS: Final = (
    *(
        "init",
        "status",
        "validate",
        "explain",
        "schema",
        "toolset",
        "bundle",
        "convert",
        "formats",
        "tool",
    ),
    *(
        "grant",
        "trust",
        "source",
        "registry",
        "role",
        "policy",
        "audit",
        "secret",
        "auth",
        "authority",
        "chat",
        "call",
        "search",
    ),
    *("script", "approval", "dev", "serve", "worker", "mcp", "token", "index", "storage", "doctor"),
)
"""Commands and groups of the program, in the order in which a new user needs them."""

GROUP_COMMANDS: Final = {
    "toolset": "diff disable enable list new show uninstall update",
    "bundle": "export import verify",
    "tool": "describe disable enable list override schema search show test",
    "grant": "add list revoke",
    "source": "accept add diff doctor list observe refresh remove show skills",
    "registry": "add list remove show",
    "role": "list",
    "policy": "explain test who",
    "audit": "export verify",
    "secret": "allow check forbid list set",
    "auth": "list login logout",
    "authority": "diff show",
    "chat branch": "delete list new rename",
    "chat": "branch checkout delete diff du export files fork gc import list log merge message new read redo "
    "rename replay resolve restore show status table undo upload",
    "chat message": "add continue edit list retry show switch",
    "script": "cancel check continue list replay run show stubs",
    "approval": "approve deny list show watch",
    "mcp": "import install",
    "token": "jwks list mint new revoke",
    "index": "rebuild status",
    "storage": "check migrate serve",
}
"""Commands by the path of their group, separated by spaces."""
