"""The project that the corpus changes: two roles, three rules, and a toolset of every kind."""

from __future__ import annotations

import hashlib
import json

from covalt_git import yaml_text
from covalt_git.json_values import canonical_json
from covalt_git.models.server_definition import process_facts, server_facts
from covalt_git.models.tool_lock import locked_tool
from covalt_git.models.toolset_manifest import ToolsetManifest

Files = dict[str, str]
GUEST_FILE = "toolsets/guest/toolset.yaml"

COVALT = """\
# Who may do what.
version: 1
default_role: author
roles:
  author:
    name: Author
    allow: ["notes.*", "web.get_*", "gear.**"]
    deny: ["notes.erase"]
  reviewer:
    allow: ["notes.list_*"]
    approve: ["notes.*"]
  owner:
    admin: true
approvals:
  - pattern: "notes.write"
    when: {args: {path: "*.env"}}
  - pattern: "web.**"
    when: {annotations: {destructive: true}}
  - pattern: "notes.list_*"
    require: false
workspace:
  ignore: [__pycache__/, node_modules/]
  max_file_mb: 50
limits: {timeout_s: 60, memory_mb: 512, approval_expires_s: 3600}
server: {host: 127.0.0.1, port: 8787, allowed_hosts: [tools.example.com]}
issuers:
  - {issuer: "https://id.example.com", jwks_file: keys/id.json, audience: covalt, role: reviewer}
signers: ["alice@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"]
secret_command: [pass, show, "{name}"]
"""

NOTES = """\
# Notes of a chat.
manifest_version: "1"
id: notes
name: Notes
version: "1.0.0"
description: Keep notes
python: {dependencies: ["jinja2>=3,<4", "markdown==3.6"]}
tools:
  - id: write
    description: Write a note
    entrypoint: tools.notes:write
    requires_confirmation: true
    input_schema:
      type: object
      properties:
        path: {type: string, maxLength: 100, pattern: "^notes/"}
        mode: {enum: [new, append]}
        count: {type: integer, minimum: 1, maximum: 10}
        tags: {type: array, maxItems: 5, items: {type: string, maxLength: 20}}
      required: [path, mode]
      additionalProperties: false
    annotations: {read_only: false, destructive: true}
    limits: {timeout_s: 30, memory_mb: 256}
    security:
      resource_uri: https://tools.example.com/notes
      required_capabilities: [notes.write]
      max_blast_radius: "namespace:notes"
      requires_execution: true
      allowed_operations: [write]
      allowed_targets: ["notes:drafts"]
      protocols: [mcp]
  - id: list_all
    entrypoint: tools.notes:list_all
    annotations: {read_only: true}
  - id: erase
    entrypoint: tools.notes:erase
  - id: old
    entrypoint: tools.notes:list_all
    enabled: false
tool_overrides:
  - tool_id: list_all
    renderer: code
    renderer_config: {content: $return}
  - tool_id: erase
    requires_confirmation: true
"""

NOTES_PY = '''\
"""Notes."""

from covalt_toolset import tool


def write(path: str, mode: str, count: int = 1, tags: list[str] | None = None) -> str:
    """Write a note."""
    return path


@tool(requires_confirmation=True)
def list_all(folder: str, deep: bool = False) -> list[str]:
    """List notes."""
    return []


def erase(path: str) -> None:
    """Erase a note."""
'''

WEB = """\
id: web
name: Web
version: "1"
secrets: [API_KEY, OTHER_KEY, BASE_URL]
tools:
  - id: get_page
    http:
      url: https://api.example.com/v1/pages/{page}
      query: {format: json}
      headers: {Authorization: "Bearer ${API_KEY}", Accept: application/json}
      retries: 1
    annotations: {read_only: true, destructive: false}
  - id: post_page
    http:
      method: POST
      url: https://api.example.com/v1/{+path}
      parameters: {title: {in: query}}
    annotations: {destructive: true}
  - id: any_host
    http: {url: "${BASE_URL}/status"}
"""

GEAR = """\
id: gear
name: Gear
version: "1"
tools: []
mcp_servers:
  - id: disk
    command: disk-server
    args: [--root, data]
    env: {DISK_MODE: quiet}
  - id: remote
    url: https://mcp.example.com/mcp
    headers: {X-Team: tools}
  - id: spare
    command: spare-server
    enabled: false
sources:
  - id: forge
    type: openapi
    spec: specs/forge.yaml
    include: ["issues.*"]
    exclude: ["issues.delete"]
    auth: {bearer: "${FORGE_TOKEN}"}
secrets: [FORGE_TOKEN]
auth:
  - {id: forge, type: oauth2, provider: forge, scopes: [read]}
"""

READ_DEFINITION = {
    "name": "read",
    "inputSchema": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "additionalProperties": False,
    },
    "annotations": {"readOnlyHint": True},
}
READ = locked_tool(READ_DEFINITION)
WIPE, MORE = (
    locked_tool({"name": name, "inputSchema": {"type": "object"}}) for name in ("wipe", "more")
)

LOCK = f"""\
version: 1
namespace: disk
toolset_id: gear
kind: mcp
tools:
  read:
    upstream: read
    digest: {READ.digest}
    input_schema: {{type: object, properties: {{path: {{type: string}}}}, additionalProperties: false}}
    annotations: {{read_only: true}}
  wipe:
    upstream: wipe
    digest: {WIPE.digest}
    input_schema: {{type: object}}
"""

GEAR_STATE = f"""\
accepted:
  disk:read: {READ.digest}
"""

GUEST = """\
id: guest
name: Guest
version: "2"
secrets: [GUEST_KEY]
tools:
  - {id: look, entrypoint: "tools.look:look"}
  - {id: ask, http: {url: "https://guest.example.com/", headers: {X-Key: "${GUEST_KEY}"}}}
mcp_servers:
  - {id: helper, command: helper, args: [--fast], env: {HOME: /srv}}
  - {id: far, url: "https://far.example.com/mcp"}
"""

LOOK_PY = 'def look(path: str) -> str:\n    """Look."""\n    return path\n'

PARKED = """\
id: parked
name: Parked
version: "1"
secrets: [PARKED_KEY]
tools:
  - {id: go, http: {url: "https://parked.example.com/"}}
"""


def guest_state(files: Files) -> str:
    """Return the state of the guest as these files have it: all of it granted, and holding."""
    manifest = ToolsetManifest.model_validate(yaml_text.load(files[GUEST_FILE].encode(), "").data)
    hashes = {path: row for _, path, row in rows_of(files, "guest")}
    said = "granted_at: '2026-11-20T17:24:00Z', granted_by: me"
    whole = f"digest: '{digest_of(files, 'guest')}', {said}"
    grants = {
        "network": f'{{kind: network, hosts: ["*.example.com", "guest.example.org"], {whole}}}',
        "secret-GUEST_KEY": (
            f"{{kind: secret, name: GUEST_KEY, hosts: [guest.example.com], {whole}}}"
        ),
        "unsandboxed": f"{{kind: unsandboxed, {whole}}}",
    }
    for server in manifest.mcp_servers:
        facts = process_facts(server, hashes) if server.command else server_facts(server)
        listed = {key: list(one) if isinstance(one, tuple) else one for key, one in facts.items()}
        told = json.dumps({key: one for key, one in listed.items() if one is not None})
        grants[f"{facts['kind']}-{server.id}"] = f"{told[:-1]}, {said}}}"
    rows = "".join(f"  {key}: {grants[key]}\n" for key in sorted(grants))
    return f"""\
enabled: true
grants:
{rows}installed_at: '2026-11-20T17:00:00Z'
overrides:
  look: {{requires_confirmation: true}}
source_ref: guest.zip
source_type: zip
"""


def digest_of(files: Files, toolset: str) -> str:
    """Return the digest of a toolset among these files, as grants are bound to it."""
    return canonical_json.digest(rows_of(files, toolset))


def rows_of(files: Files, toolset: str) -> list[list[str]]:
    """Return the mode, the path and the hash of each file of a toolset."""
    prefix = f"toolsets/{toolset}/"
    return [
        ["100644", path.removeprefix(prefix), hashlib.sha256(text.encode()).hexdigest()]
        for path, text in sorted(files.items())
        if path.startswith(prefix)
    ]


def sample() -> Files:
    files = {
        "README.md": "# A project\n",
        "covalt.yaml": COVALT,
        "keys/id.json": '{"keys": []}\n',
        "toolsets/notes/toolset.yaml": NOTES,
        "toolsets/notes/tools/notes.py": NOTES_PY,
        "toolsets/notes/README.md": "Notes.\n",
        "toolsets/web/toolset.yaml": WEB,
        "toolsets/gear/toolset.yaml": GEAR,
        "toolsets/gear/specs/forge.yaml": "openapi: 3.1.0\n",
        "toolsets/locks/disk.yaml": LOCK,
        "toolsets/state/gear.yaml": GEAR_STATE,
        "toolsets/guest/toolset.yaml": GUEST,
        "toolsets/guest/tools/look.py": LOOK_PY,
        "toolsets/parked/toolset.yaml": PARKED,
        "toolsets/state/parked.yaml": "source_ref: parked.zip\nsource_type: zip\n",
    }
    files["toolsets/state/guest.yaml"] = guest_state(files)
    return files
