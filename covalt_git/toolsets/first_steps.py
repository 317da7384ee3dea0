"""Commands that the author of a new toolset runs next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from covalt_git.json_values import canonical_json

if TYPE_CHECKING:
    from covalt_git.toolsets.toolset import Toolset


def first_steps(toolset: Toolset, chat_id: str | None) -> list[str]:
    """Return shell commands.  The example call uses ``chat_id``, or a new chat if it is None."""
    steps = [f"covalt-git validate toolsets/{toolset.id}"]
    granting = f"covalt-git grant add {toolset.id} --requested"
    tool = next(iter(toolset.tools), None)
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    if tool is None and servers:
        return [*steps, granting, f"covalt-git source refresh {toolset.id}"]
    if tool is None:
        return [*steps, f"covalt-git toolset show {toolset.id}"]
    sign_ins = [
        entry for entry in (toolset.manifest.auth if toolset.manifest else ()) if entry.is_sign_in
    ]
    if tool.http is not None or sign_ins:
        steps.append(granting)
    steps += [f"covalt-git auth login {toolset.id}/{entry.id}" for entry in sign_ins]
    steps.append(f"covalt-git tool test {toolset.id}")
    if chat_id is None:
        chat_id = "c1"
        steps.append(f"covalt-git chat new --id {chat_id}")
    example = next(iter(tool.examples), None)
    args = canonical_json.dumps(example.args).decode() if example else "{}"
    return [*steps, f"covalt-git call {chat_id} {tool.tool_id} {shlex.quote(args)}"]
