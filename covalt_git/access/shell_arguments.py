"""Arguments that a shell reads, and texts that make a shell run more than one command.

A pattern such as ``git *`` means one command to its author.  But ``*`` matches any characters, and a shell runs
``git status; rm -rf .`` as two commands.  So a waiver matches a text for a shell only if the text has no character
that starts another command, redirects output or expands to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covalt_git.access.argument_paths import keys_with_dots, readings
from covalt_git.json_values.pointer import BadReferenceError
from covalt_git.json_values.subschemas import Subschemas
from covalt_git.models.tool_properties import SHELL_SCHEMA, UNREAD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool

SHELL_NAMES: Final = frozenset({"command", "cmd", "script", "shell", "code"})
"""Names of arguments that a shell or an interpreter reads, in lower case."""

METACHARACTERS: Final = frozenset(";&|<>$`\n\r()")
"""Characters of POSIX shells (XCU 2.2, 2.9, 2.6) that separate commands, redirect, or begin an expansion.

A carriage return separates commands in the shells of Windows, which may read the same argument.
"""


def is_shell_argument(schema: JsonObject, path: str) -> bool:
    """Return whether a shell reads the argument at a path: by a name on the path, or by its schema."""
    if any(name.lower() in SHELL_NAMES for name in path.split(".")):
        return True
    try:
        return any(part.get(SHELL_SCHEMA) for part in _schemas_on_the_way(schema, path))
    except BadReferenceError:  # a schema that cannot be followed waives nothing
        return True


def is_shell_argument_of(tool: Tool, path: str) -> bool:
    """Return whether a shell may read an argument of a tool: its declared schema or that of its function says so.

    The type of a Python parameter may be one that cannot be read, such as one from another module.  It may have ``x-shell``,
    and so may the parameters of a function whose signature cannot be read.
    """
    schemas = [schema for schema in (tool.input_schema, tool.function_schema) if schema is not None]
    if any(is_shell_argument(schema, path) for schema in schemas):
        return True
    return tool.kind == "python" and any(
        part.get(UNREAD_SCHEMA) for schema in schemas for part in _schemas_on_the_way(schema, path)
    )


def may_run_more(pattern: str, text: str) -> bool:
    """Return whether a ``*`` of a pattern matches a metacharacter in a text that the pattern matches.

    The characters that the pattern has itself are in its fixed parts: ``make && make *`` says that two commands may
    run, and not a third.  If the text matches in several ways, the first from the left decides.
    """
    first, *pieces = pattern.split("*")
    position = len(first)
    for number, piece in enumerate(pieces, start=1):
        is_last = number == len(pieces)
        # The last piece is matched at the end of the text: "git * --dry-run" must cover all that is before it.
        end = len(text) - len(piece) if is_last else text.find(piece, position)
        if not METACHARACTERS.isdisjoint(text[position:end]):
            return True
        position = end + len(piece)
    return False


def _schemas_on_the_way(root: JsonObject, path: str) -> Iterator[JsonObject]:
    """Yield all schemas that apply to an argument, and to the values around it."""
    subschemas = Subschemas(root)
    outermost = subschemas.of_all()
    yield from outermost
    for names in readings(path, keys_with_dots(root) if "." in path else ()):
        schemas = outermost
        for name in names:
            schemas = subschemas.below(schemas, name)
            yield from schemas
