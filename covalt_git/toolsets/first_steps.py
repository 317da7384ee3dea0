"""Commands that the author of a new toolset runs next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from covalt_git.hosts import origin_of
from covalt_git.json_values import canonical_json
from covalt_git.templating.url_templates import UrlTemplate

if TYPE_CHECKING:
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.toolsets.toolset import Toolset


def first_steps(toolset: Toolset, chat_id: str | None) -> list[str]:
    """Return shell commands.  The example call uses ``chat_id``, or a new chat if it is None."""
    steps = [f"covalt-git validate toolsets/{toolset.id}"]
    tool = next(iter(toolset.tools), None)
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    if tool is None and servers:
        grants = [_granting_server(toolset, server) for server in servers]
        return [*steps, *grants, f"covalt-git source refresh {toolset.id}"]
    if tool is None:
        return [*steps, f"covalt-git toolset show {toolset.id}"]
    if tool.http is not None:
        steps.append(_granting(toolset, tool))
    steps.append(f"covalt-git tool test {toolset.id}")
    if chat_id is None:
        chat_id = "c1"
        steps.append(f"covalt-git chat new --id {chat_id}")
    example = next(iter(tool.examples), None)
    args = canonical_json.dumps(example.args).decode() if example else "{}"
    return [*steps, f"covalt-git call {chat_id} {tool.tool_id} {shlex.quote(args)}"]


def _granting_server(toolset: Toolset, server: McpServer) -> str:
    kind = "server" if server.command is None else "process"
    return f"covalt-git grant add {toolset.id} {kind} {server.id}"


def _granting(toolset: Toolset, tool: Tool) -> str:
    assert tool.http is not None
    origin, _ = origin_of(UrlTemplate.parse(tool.http.url).begins)
    return f"covalt-git grant add {toolset.id} network {origin.shown_host}"
