"""The formats, in the order of ``covalt-git formats``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covalt_git.formats import (
    cjson,
    cjson_conversations,
    cognipeer,
    function_lists,
    genai_toolbox,
    mcpb,
    skills,
    tool_entries,
    tools_list,
    toolset_yaml,
)
from covalt_git.formats.mcp_clients import mcp_configs

if TYPE_CHECKING:
    from covalt_git.formats.model import Format

FORMATS: Final[tuple[Format, ...]] = (
    toolset_yaml.FORMAT,
    cjson.FORMAT,
    cjson_conversations.FORMAT,
    cognipeer.FORMAT,
    tool_entries.FORMAT,
    *mcp_configs.FORMATS,
    skills.FORMAT,
    mcpb.MCPB,
    mcpb.SERVER_JSON,
    tools_list.FORMAT,
    tools_list.LOCK,
    genai_toolbox.FORMAT,
    *function_lists.FORMATS,
)
