"""Files that the commands of MCP servers name and that the sandbox does not show, with the folders to grant."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.checks.program_code import declared_refusals
from covalt_git.models.toolset_state import WRITABLE
from covalt_git.runtime.mcp_servers import hidden_arguments
from covalt_git.runtime.personal_places import why_personal, why_wide

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.toolsets.toolset import Toolset


class NamedFile(NamedTuple):
    """A file that a command names and the sandbox does not show, and the folder that a grant would show.

    ``refusal`` is why this folder is not proposed for a grant; empty if it is.
    """

    path: Path
    folder: Path
    refusal: str


def hidden_files(toolset: Toolset, server: McpServer) -> Iterator[NamedFile]:
    """Yield the files that the sandbox would hide from the program of a server with a grant of its command alone.

    A server that is not started because of where its code is needs another place for it, and no folder.
    """
    if server.command is None:
        return
    if any(declared_refusals(server, toolset.root, toolset.folder, sandboxed=True)):
        return
    words = [server.command, *server.args]
    for path, folder in hidden_arguments(words, [toolset.folder]):
        yield NamedFile(path, folder, _refusal(path, folder))


def _refusal(path: Path, folder: Path) -> str:
    """Return why no import proposes a folder: it has more than the server needs, or what it has can change."""
    if wide := why_wide(folder):
        return wide
    if personal := why_personal(path) or why_personal(folder):
        return f"a server should not need {str(folder)!r}: {personal}"
    # A link can lead elsewhere after the grant, which names the folder of the link; `..` can lead through one.
    target = path.resolve()
    if not target.is_relative_to(folder):
        return f"{str(path)!r} is {str(target)!r}: write that path in its command"
    # A grant of it would be one of another folder, with the right to write there.
    if str(folder).endswith(WRITABLE):
        return f"the name of {str(folder)!r} ends with {WRITABLE}"
    return ""
