"""The formats, in the order of ``covalt-git formats``."""

from __future__ import annotations

from typing import Final

from covalt_git.formats import (
    cjson,
    cjson_conversations,
    cognipeer,
    function_lists,
    genai_toolbox,
    openapi,
    skills,
    tool_entries,
    tools_list,
    toolset_yaml,
)
from covalt_git.formats.mcp_clients import mcp_configs
from covalt_git.formats.mcp_packages import mcpb, server_json
from covalt_git.formats.model import Format
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.models.sources.skill_entry import SKILL

TOOLSET: Final = Format("toolset", "toolset.yaml", "folder", MANIFEST, toolset_yaml.recognize, toolset_yaml.read, toolset_yaml.write)  # fmt: skip

FORMATS: Final[tuple[Format, ...]] = (
    TOOLSET,
    Format("cjson", "CJSON", "json", "toolsets.cjson.json", cjson.recognize, cjson.read, cjson.write, cjson.SCHEMA, cjson.UNIQUE, cjson.correct),
    Format("cjson-conversation", "a CJSON conversation", "json", "conversation.cjson.json", write=cjson_conversations.write, experimental=True),
    Format("cognipeer", "Cognipeer", "json", "tool.json", cognipeer.recognize, cognipeer.read, cognipeer.write, cognipeer.SCHEMA, (("actions", "name"),)),
    Format("tool-entry", "a ToolEntry", "json", "tools.json", tool_entries.recognize, tool_entries.read, tool_entries.write, tool_entries.SCHEMA, (("tools", "tool_id"),)),
    *mcp_configs.FORMATS,
    Format("skills", "a skill", "folder", SKILL, skills.recognize, skills.read, skills.write),
    Format("mcpb", "an MCPB manifest", "json", "manifest.json", mcpb.recognize_manifest, mcpb.read_manifest, mcpb.write_manifest, mcpb.MANIFEST_SCHEMA, replaces_carried=False),
    Format("mcp-server-json", "server.json of the MCP registry", "json", "server.json", server_json.recognize, server_json.read, schema=server_json.SCHEMA),
    Format("mcp-tools", "a tools/list result", "json", "tools.json", tools_list.recognize, tools_list.read, tools_list.write, tools_list.SCHEMA, (("tools", "name"),)),
    Format("tool-lock", "a lock file", "yaml", "lock.yaml", write=tools_list.write_lock),
    Format("genai-toolbox", "genai-toolbox", "yaml", "tools.yaml", genai_toolbox.recognize, genai_toolbox.read, schema=genai_toolbox.SCHEMA),
    Format("openapi", "an OpenAPI document", "yaml", "openapi.yaml", openapi.recognize, openapi.read),
    *function_lists.FORMATS,
)  # fmt: skip
