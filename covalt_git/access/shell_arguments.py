"""Arguments that a shell reads, and texts that make a shell run more than one command.

A pattern such as ``git *`` means one command to its author.  But ``*`` matches any characters, and a shell runs
``git status; rm -rf .`` as two commands.  So a waiver matches a text for a shell only if the text has no character
that starts another command, redirects output or expands to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject

SHELL_NAMES: Final = frozenset({"command", "cmd", "script", "shell", "code"})
"""Names of arguments that a shell or an interpreter reads, in lower case."""

SHELL_SCHEMA: Final = "x-shell"
"""Key of the schema of an argument that a shell reads whatever its name is."""

METACHARACTERS: Final = frozenset(";&|<>$`\n\r()")
"""Characters of POSIX shells (XCU 2.2, 2.9, 2.6) that separate commands, redirect, or begin an expansion.

A carriage return separates commands in the shells of Windows, which may read the same argument.
"""

_MOST_REFERENCES = 20


def is_shell_argument(schema: JsonObject, path: str) -> bool:
    """Return whether a shell reads the argument at a dotted path: by a name on the path, or by its schema."""
    names = path.split(".")
    if any(name.lower() in SHELL_NAMES for name in names):
        return True
    node: Any = schema
    for name in names:
        node = _resolved(node, schema)
        if not isinstance(node, dict):
            return False
        if node.get(SHELL_SCHEMA) is True:
            return True
        properties = node.get("properties")
        inner = properties.get(name) if isinstance(properties, dict) else None
        node = node.get("items") if inner is None and name.isdigit() else inner
    node = _resolved(node, schema)
    return isinstance(node, dict) and node.get(SHELL_SCHEMA) is True


def may_run_more(pattern: str, text: str) -> bool:
    """Return whether a text that ``pattern`` matches has a metacharacter that the pattern has not literally."""
    return not METACHARACTERS.intersection(text) <= set(pattern)


def _resolved(node: Any, schema: JsonObject) -> Any:
    """Return a schema behind its references within the document."""
    for _ in range(_MOST_REFERENCES):
        reference = node.get("$ref") if isinstance(node, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return node
        node = schema
        for part in reference[2:].split("/"):
            node = node.get(part) if isinstance(node, dict) else None
    return node
