"""Check of MCP servers whose program would load code of the project or the workspace, or a script that does not exist.

References have no values yet, except for the variables of folders; :mod:`covalt_git.runtime.mcp_servers` checks all.
"""

from __future__ import annotations

import os.path
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from covalt_git.access.loaded_code import Places, refusals
from covalt_git.access.missing_scripts import missing_script
from covalt_git.models.toolset_state import ProcessGrant
from covalt_git.problems import codes
from covalt_git.templating.references import Reference, split

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from covalt_git.access.loaded_code import Refusal
    from covalt_git.errors import Problem
    from covalt_git.manifests.reading import Reading
    from covalt_git.models.toolset_manifest import McpServer, ToolsetManifest
    from covalt_git.models.toolset_state import ToolsetState


def check_program_code(
    manifest: Reading[ToolsetManifest],
    state: ToolsetState,
    root: Path,
    folder: Path,
    files: Collection[str],
) -> Iterator[Problem]:
    """Find what the program of a server would be refused for, also what is only refused without a sandbox if it has none.

    A script that is not in ``files``, those of the toolset, is a warning too.
    """
    outside = {
        grant.server
        for grant in state.grants.values()
        if isinstance(grant, ProcessGrant) and grant.confinement is None
    }
    for at, server in enumerate(manifest.valid.mcp_servers):
        if server.command is None:
            continue
        below = manifest.below("mcp_servers", at)
        refused = [*declared_refusals(server, root, folder, sandboxed=server.id not in outside)]
        for refusal in refused:
            hint = refusal.hint(manifest.valid.id, server)
            yield below.warning(codes.CHANGING_CODE, refusal.loc, refusal.why(server), hint=hint)
        missing = missing_script(server, files)
        # What is refused is named already, with where to move it.
        if missing is not None and not refused:
            yield below.warning(codes.NO_FILE, missing.loc, missing.message, hint=missing.hint)
        cwd = None if server.cwd is None else _filled(server.cwd, root, folder)
        # Empty if cwd is a reference without a value here: then the folder is known only when the program starts.
        if cwd and not Path(os.path.normpath(folder / cwd)).is_relative_to(folder):
            hint = f"leave cwd out, or move the folder into toolsets/{manifest.valid.id}"
            message = f"cwd {server.cwd!r} is not in the toolset"
            yield below.warning(codes.CHANGING_CODE, ("cwd",), message, hint=hint)


def declared_refusals(
    server: McpServer, root: Path, folder: Path, *, sandboxed: bool
) -> Iterator[Refusal]:
    """Yield what a program would be refused for, as far as its declaration shows it; ``folder`` is that of its toolset."""
    argv = [_filled(text, root, folder) for text in (server.command or "", *server.args)]
    env = {name: _filled(text, root, folder) for name, text in server.env.items()}
    places = Places(root.resolve(), folder, _workspace(root), folder)
    return refusals(argv, env, places, sandboxed=sandboxed)


def _workspace(root: Path) -> Path:
    """Return a folder in the place of the workspaces of chats."""
    return root / "data" / "chats" / "chat" / "workspace"


def _filled(text: str, root: Path, folder: Path) -> str:
    places = {"workspace": str(_workspace(root)), "toolset": str(folder)}
    # The project, where commands usually start.
    values = {"PWD": str(root), "OLDPWD": str(root), "HOME": str(Path.home())}
    return "".join(
        values.get(piece.name) or piece.default or ""
        if isinstance(piece, Reference)
        else Template(piece).safe_substitute(places)
        for piece in split(text)
    )
