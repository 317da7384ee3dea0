"""MCP servers as their toolsets declare them, made ready to be connected to.

References are looked up here, as late as that; what they stand for is never searched for further ones.
``$workspace`` and ``$toolset`` (also in braces) are the chat's folder and that of the toolset's copy: a
program starts from the files that were granted, whatever happens to the toolset meanwhile.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from covalt_git.access.grants import rule_of
from covalt_git.connections.definition import Definition, Name
from covalt_git.errors import CovaltError
from covalt_git.hosts import BadHostError, HostRule, Reach, origin_of
from covalt_git.templating.references import Reference, split
from covalt_git.toolsets.toolset_copies import ToolsetCopy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from covalt_git.access.grants import Granted
    from covalt_git.http_tools.secret_lookup import Lookup
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.toolsets.toolset import Toolset

_PLACE = re.compile(r"\$\$|\$(?:\{(?P<braced>workspace|toolset)\}|(?P<bare>workspace|toolset)\b)")


class WorkspaceFolderError(CovaltError):
    """A server would start in the workspace, and load what any tool may have written there."""

    code = "server_in_workspace"


def definition(
    toolset: Toolset,
    server: McpServer,
    *,
    root: Path,
    workspace: Path,
    chat_id: str | None,
    may: Granted,
    lookup: Lookup,
) -> Definition:
    """Return how a server is reached, for a chat whose folder is ``workspace``.

    Raises:
        SecretMissingError: when a reference stands for nothing.
        UnfitSecretError: when one stands for what cannot be sent.
        WorkspaceFolderError: when it would start in the workspace.
        BadHostError: when its address is none.
    """
    copy = ToolsetCopy.of(toolset)
    places = {"workspace": str(workspace.absolute()), "toolset": str(copy.folder)}

    def written(text: str, look_up: Callable[[Reference], str | None] = lookup.look_up) -> str:
        return "".join(
            look_up(piece) or "" if isinstance(piece, Reference) else _placed(piece, places)
            for piece in split(text)
        )

    name = Name(root, toolset.id, server.id, chat_id)
    if server.url is not None:
        url = written(server.url)
        try:
            origin, _ = origin_of(url)
        except BadHostError:  # whose message has the address, and so what is secret of it
            raise BadHostError(f"{server.url!r} stands for no address") from None
        rules = (HostRule.parse(rule_of(origin)), *may.reach.rules)
        headers = {key: written(value, lookup.in_header) for key, value in server.headers.items()}
        return Definition(
            name,
            "sse" if server.server_type == "sse" else "streamable-http",
            url=url,
            headers=headers,
            reach=Reach(rules),
            workspace=workspace,
            secrets=tuple(lookup.used.values()),
        )
    cwd = None if server.cwd is None else copy.folder / written(server.cwd)
    if cwd is not None and cwd.resolve().is_relative_to(workspace.resolve()):
        raise WorkspaceFolderError(
            f"the MCP server {name} would start in the workspace, where tools write what it may load",
            hint="leave cwd out, and pass $workspace as an argument",
        )
    argv = [written(text) for text in (server.command or "", *server.args)]
    if cwd is None:
        argv = _of_toolset(copy, argv)
    env = {key: written(value) for key, value in server.env.items()}
    uses_toolset = any(str(copy.folder) in text for text in (*argv, *env.values(), str(cwd)))
    return Definition(
        name,
        "stdio",
        argv=tuple(argv),
        cwd=cwd,
        env=env,
        toolset=copy if uses_toolset else None,
        workspace=workspace,
        secrets=tuple(lookup.used.values()),
    )


def _placed(text: str, places: dict[str, str]) -> str:
    """Return a text with its places as paths of this machine, and ``$$`` as a dollar."""

    def meant(match: re.Match[str]) -> str:
        place = match["braced"] or match["bare"]
        return "$" if place is None else places[place]

    return _PLACE.sub(meant, text)


def _of_toolset(copy: ToolsetCopy, argv: list[str]) -> list[str]:
    """Return a command whose words that are files of the toolset are their whole paths.

    It starts in an empty folder: in the toolset's own, it would load what nobody granted.
    """
    paths = {file.path for file in copy.files}
    command, *args = (str(copy.folder / word) if word in paths else word for word in argv)
    return [command if "/" in argv[0] else argv[0], *args]
