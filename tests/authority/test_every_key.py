"""Every key that people can write is told of as authority, or was decided to be none.

A new key fails here until somebody has decided which it is.
"""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from covalt_git.models import project_config, toolset_manifest, toolset_state

NO_AUTHORITY = {
    # Words, pictures and their order.
    "LocalOverride": {"name_override", "description_override", "renderer", "renderer_config"},
    "RoleConfig": {"name"},
    "ToolDeclaration": {
        *("name", "description", "examples", "tags", "icon", "renderer", "output_schema"),
    },
    "ToolOverride": {"name_override", "description_override", "renderer", "renderer_config"},
    "ToolsetManifest": {
        *("manifest_version", "name", "version", "description", "icon", "extensions"),
        # Texts and files of the toolset: nothing runs for them, and nothing outside of it is read.
        *("prompts", "resources"),
    },
    # Where it came from and when; a signer is looked at before, and none has a right by it.
    "ToolsetState": {"source_ref", "version", "installed_at", "digest", "signer"},
    # How chats are kept, not what may be done in them.
    "ProjectConfig": {"version"},
    "ServerConfig": {"port"},
    "WorkspaceConfig": {"durability", "object_format"},
}

TOLD = {
    "Auth": {"id", "type", "provider", "scopes", "token"},
    "LocalOverride": {"requires_confirmation", "enabled"},
    "McpServer": {
        *("id", "transport", "command", "args", "cwd", "env", "url", "headers"),
        *("requires_confirmation", "enabled"),
    },
    "ProjectConfig": {
        *("default_role", "roles", "approvals", "workspace", "limits", "server", "issuers"),
        *("signers", "secret_command"),
    },
    "RoleConfig": {"allow", "deny", "approve", "admin"},
    "ServerConfig": {"host", "allowed_hosts"},
    "Source": {
        *("id", "type", "spec", "schema_file", "endpoint", "base_url", "server", "module"),
        *("headers", "auth", "include", "exclude", "requires_confirmation", "enabled"),
    },
    "ToolDeclaration": {
        *("id", "entrypoint", "http", "input_schema", "annotations", "limits"),
        *("security", "requires_confirmation", "enabled"),
    },
    "ToolOverride": {"tool_id", "requires_confirmation", "enabled"},
    "ToolsetManifest": {
        *("id", "defaults", "python", "secrets", "tools", "tool_overrides", "mcp_servers"),
        *("sources", "auth"),
    },
    "ToolsetState": {"source_type", "enabled", "overrides", "grants", "accepted", "aliases"},
    "WorkspaceConfig": {"ignore", "max_file_mb"},
}


@pytest.mark.parametrize("name", sorted(TOLD))
def test_every_key_was_decided_about(name: str) -> None:
    models: dict[str, type[BaseModel]] = {
        one.__name__: one
        for module in (project_config, toolset_manifest, toolset_state)
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, BaseModel)
    }

    assert set(models[name].model_fields) == TOLD[name] | NO_AUTHORITY.get(name, set())
