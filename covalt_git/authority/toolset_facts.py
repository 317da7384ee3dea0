"""What a toolset may do, as facts that ``authority show`` and ``authority diff`` compare.

They are its requested permissions, grants, servers and accepted tools.  ``sources`` and ``auth`` of a
manifest have no effect yet, so they permit nothing.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from covalt_git.access.grants import holds, keeping
from covalt_git.authority.facts import Fact, Loc, Place, place_in
from covalt_git.authority.kinds import package_of
from covalt_git.authority.program_uses import WITHOUT_SANDBOX
from covalt_git.authority.tool_facts import (
    ToolPlaces,
    confirmation_fact,
    http_facts,
    tool_facts,
)
from covalt_git.json_values import canonical_json
from covalt_git.manifests.override_keys import overridden_tool, override_key
from covalt_git.manifests.page_calls import page_call_patterns
from covalt_git.manifests.skills import skill_path
from covalt_git.manifests.stored_schemas import schema_file
from covalt_git.models.sources.tool_lock import LockedFile
from covalt_git.models.toolset_state import (
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    ToolGrant,
)
from covalt_git.names import REGISTRY_NAMESPACE, ToolId

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.reading import Reading
    from covalt_git.manifests.toolset_files import BundleFile
    from covalt_git.models.auth_entries import Auth
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.sources.tool_lock import LockedTool, ToolLock
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import McpServer, ToolsetManifest
    from covalt_git.models.toolset_state import Grant
    from covalt_git.toolsets.toolset import Toolset


def toolset_facts(toolset: Toolset, config: ProjectConfig) -> Iterator[Fact]:
    """Yield the facts of a toolset, its tools and servers; if disabled, only its grants."""
    manifest = toolset.manifest_reading.valid
    # Also of a disabled toolset: enabling it is one word, and its grants would act at once.
    yield from _grant_facts(toolset)
    if not toolset.enabled:
        return
    subject = toolset.id
    is_set = toolset.state.enabled is not None
    enabled = _state_place(toolset, "enabled") if is_set else _manifest_place(toolset, "id")
    yield Fact(subject, "toolset", "", None, enabled)
    imported = _state_place(toolset, "source_type")
    own = not toolset.state.imported
    yield Fact(subject, "own", "", own, enabled if own else imported)
    code = _digest_of(file for file in toolset.files.files if file.kind == "python")
    yield Fact(subject, "code", "", code, Place(f"toolsets/{subject}"))
    yield from _skill_facts(toolset)
    for position, name in enumerate(manifest.secrets):
        yield Fact(subject, "secret", name, None, _manifest_place(toolset, "secrets", position))
    for position, entry in enumerate(manifest.auth):
        place = _manifest_place(toolset, "auth", position)
        yield from _sign_in_facts(subject, entry, place)
    for position, text in enumerate(manifest.python.dependencies):
        place = _manifest_place(toolset, "python", "dependencies", position)
        yield Fact(subject, "package", package_of(text), text, place)
    for name, alias in sorted(toolset.state.aliases.items()):
        yield Fact(subject, "alias", name, alias, _state_place(toolset, "aliases", name))
    for tool in tools_of(toolset):
        if not tool.is_locked:
            source = toolset.sources.get(tool.id.name)
            # A declared schema says what calls accept, whatever the function accepts besides.
            unread: Mapping[str, str] | None = {}
            if not tool.schema_is_declared and tool.entrypoint is not None:
                # Without the source the schema accepts everything, though no call can run the function.
                unread = None if source is None else source.unread_digests
            yield from tool_facts(tool, config, _tool_places(toolset, tool), unread)
    yield from _page_facts(toolset, manifest)
    yield from _server_facts(toolset, manifest)
    yield from _lock_facts(toolset, config)
    yield from _offer_facts(toolset)


def _manifest_place(toolset: Toolset, *loc: str | int, key: bool = False) -> Place:
    return place_in(toolset.manifest_reading, loc, key=key)


def _state_place(toolset: Toolset, *loc: str | int, key: bool = False) -> Place:
    return place_in(toolset.state_reading, loc, key=key)


def tools_of(toolset: Toolset) -> tuple[Tool, ...]:
    """Return the enabled tools of a toolset, of its servers and of its documents."""
    return tuple(tool for tool in toolset.tools if tool.enabled)


def _digest_of(files: Iterable[BundleFile]) -> str:
    rows = (f"{file.path}\0{file.sha256}" for file in files)
    return hashlib.sha256("\n".join(rows).encode("utf-8", "surrogateescape")).hexdigest()


def _skill_facts(toolset: Toolset) -> Iterator[Fact]:
    """Yield a fact for each skill; its value is the digest of the files of the skill."""
    for skill in toolset.skills:
        place = Place(f"toolsets/{toolset.id}/{skill_path(skill.name)}", 1, 1)
        digest = _digest_of(skill.files)
        yield Fact(toolset.id, "skill", skill.name, digest, place)


def _sign_in_facts(subject: str, entry: Auth, place: Place) -> Iterator[Fact]:
    """Yield what a sign-in requests: where the user signs in, its scopes, and the hosts that may get its token."""
    if not entry.is_sign_in:
        return
    for kind in ("issuer", "authorize_url", "token_url", "revoke_url"):
        url = entry.url(kind)
        if url is not None:
            yield Fact(subject, "sign_in", f"{entry.id} at {url}", None, place)
    for scope in entry.effective_scopes:
        yield Fact(subject, "sign_in_scope", f"{entry.id}: {scope}", None, place)
    for host in entry.effective_hosts:
        yield Fact(subject, "sign_in_to", f"{entry.id} to {host}", None, place)


# Grants


def _grant_facts(toolset: Toolset) -> Iterator[Fact]:
    """Yield the facts of valid grants, and a ``stale`` fact for each that changed files made invalid."""
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    for key, grant in sorted(toolset.state.grants.items()):
        valid = holds(grant, toolset.digest, servers, toolset.files.hashes, toolset.tools)
        only: tuple[str, ...] = ()
        if not valid and isinstance(grant, NetworkGrant | SecretGrant):
            only = keeping(grant, toolset.tools)
        for fact in _granted(toolset, key, grant):
            if valid:
                yield fact
            # The Python of the toolset has changed, so it does not get the secret any more.
            elif only and fact.kind != "secret_use":
                yield replace(fact, value=fact.value | {"only": only})
            elif only and not toolset.has_python_tools:
                continue  # nothing has lost it
            else:
                item = f"{fact.kind} {fact.item}"
                yield Fact(fact.subject, "stale", item, fact.value, fact.place, implied=True)


def _granted(toolset: Toolset, key: str, grant: Grant) -> Iterator[Fact]:
    subject = toolset.id
    value: JsonObject = {"digest": grant.digest}
    place = _state_place(toolset, "grants", key, key=True)
    match grant:
        case NetworkGrant():
            for position, host in enumerate(grant.hosts):
                at = _state_place(toolset, "grants", key, "hosts", position)
                yield Fact(subject, "network", host, value, at)
        case SecretGrant():
            # The toolset's Python gets the secret, whatever the hosts are.
            yield Fact(subject, "secret_use", grant.name, value, place, implied=bool(grant.hosts))
            for position, host in enumerate(grant.hosts):
                at = _state_place(toolset, "grants", key, "hosts", position)
                yield Fact(subject, "secret_to", f"{grant.name} to {host}", value, at)
        case ProcessGrant():
            more: JsonObject = {
                "argv": list(grant.argv),
                "cwd": grant.cwd,
                "env": sorted(grant.env),
                "files": dict(grant.files),
            }
            yield Fact(subject, "process", grant.server, value | more, place)
            uses = [f"with {use}" for use in grant.uses]
            for use in uses if grant.confinement is not None else [WITHOUT_SANDBOX]:
                yield Fact(subject, "server_use", f"{grant.server} {use}", None, place)
        case ToolGrant():
            yield from _of_tool_grant(grant, place)
        case ServerGrant():
            more = {
                "url": grant.url,
                "transport": grant.transport,
                "headers": sorted(grant.headers),
            }
            yield Fact(subject, "server_grant", grant.server, value | more, place)
        case _:
            yield Fact(subject, "unsandboxed", "", value, place)


def _of_tool_grant(grant: ToolGrant, place: Place) -> Iterator[Fact]:
    """Yield the hosts and secrets of a registered tool's grant.  Its request or alias is a fact of the tool."""
    subject = str(ToolId(REGISTRY_NAMESPACE, grant.tool))
    value: JsonObject = {"digest": grant.digest, "only": (grant.tool,)}
    for host in grant.hosts:
        yield Fact(subject, "network", host, value, place)
        for name in grant.secrets:
            yield Fact(subject, "secret_to", f"{name} to {host}", value, place)


# Places of a tool's parts


def _tool_places(toolset: Toolset, tool: Tool) -> ToolPlaces:
    manifest = toolset.manifest_reading.valid
    if tool.toolset_id == REGISTRY_NAMESPACE:
        entry = Place(toolset.manifest_reading.path)
        return ToolPlaces(lambda _: entry, lambda _: entry, entry)
    name = tool.id.name
    above: Loc = (
        "tools",
        next(at for at, declared_tool in enumerate(manifest.tools) if declared_tool.id == name),
    )
    source = toolset.sources.get(name)
    code = _manifest_place(toolset, *above, "entrypoint")
    if source is not None and tool.entrypoint is not None:
        module = tool.entrypoint.partition(":")[0]
        path = toolset.files.module_path(module)
        if path is not None:
            code = Place(f"toolsets/{toolset.id}/{path}", source.line, source.col)

    def declared(loc: Loc) -> Place:
        return _manifest_place(toolset, *above, *loc, key=len(loc) > 1)

    def schema(loc: Loc) -> Place:
        if tool.schema_is_declared:
            file = schema_file(
                toolset.manifest_reading, toolset.stored_schemas, int(above[1]), "input_schema"
            )
            return place_in(file, (*file.above, *loc), key=bool(loc))
        return code

    confirmation = _manifest_place(toolset, *above, "requires_confirmation")
    asks = tool.confirmation[:1]
    local = toolset.state.overrides.get(name)
    if local is not None and local.requires_confirmation is not None:
        confirmation = _state_place(toolset, "overrides", name, "requires_confirmation")
    elif asks == ("decorator",):
        confirmation = code
    elif asks == ("destructive",):
        confirmation = _manifest_place(toolset, *above, "annotations", "destructive")
    elif asks == ("override",):
        confirmation = _override_place(toolset, manifest, tool.tool_id)
    elif asks and manifest.tools[int(above[1])].requires_confirmation is None:
        confirmation = _manifest_place(toolset, "defaults", "requires_confirmation")
    return ToolPlaces(declared, schema, confirmation)


def _override_place(toolset: Toolset, manifest: ToolsetManifest, tool_id: str) -> Place:
    at = next(
        at
        for at, override in enumerate(manifest.tool_overrides)
        if override_key(manifest.id, override.tool_id) == tool_id
    )
    return _manifest_place(toolset, "tool_overrides", at, "requires_confirmation")


def _page_facts(toolset: Toolset, manifest: ToolsetManifest) -> Iterator[Fact]:
    """Yield what the page of each tool's results may call."""
    for tool in tools_of(toolset):
        patterns = page_call_patterns(tool)
        place = _calls_place(toolset, manifest, tool) if patterns else Place("")
        for pattern in patterns:
            yield Fact(tool.tool_id, "page_call", pattern, None, place)


def _calls_place(toolset: Toolset, manifest: ToolsetManifest, tool: Tool) -> Place:
    """Return the place of the calls of a tool's page: in the state file, the overrides or the declaration."""
    local = toolset.state.overrides.get(tool.name_in_state)
    if local is not None and local.renderer_config is not None:
        return _state_place(toolset, "overrides", tool.name_in_state, "renderer_config", "calls")
    for position, override in enumerate(manifest.tool_overrides):
        overridden = overridden_tool(manifest.id, override.tool_id, toolset.state)
        if overridden == tool.tool_id and override.renderer_config is not None:
            return _manifest_place(toolset, "tool_overrides", position, "renderer_config", "calls")
    position = next(at for at, other in enumerate(manifest.tools) if other.id == tool.id.name)
    return _manifest_place(toolset, "tools", position, "renderer", "calls")


def _server_facts(toolset: Toolset, manifest: ToolsetManifest) -> Iterator[Fact]:
    for position, server in enumerate(manifest.mcp_servers):
        if server.enabled:
            yield from _one_server(toolset, ("mcp_servers", position), server)


def _one_server(toolset: Toolset, above: Loc, server: McpServer) -> Iterator[Fact]:
    def at(*loc: str | int) -> Place:
        return _manifest_place(toolset, *above, *loc)

    subject = f"server {toolset.id}:{server.id}"
    if server.command is not None:
        program: JsonObject = {"command": [server.command, *server.args], "cwd": server.cwd}
        yield Fact(subject, "server", "", program, at("command"))
    else:
        remote: JsonObject = {"url": server.url, "transport": server.server_type}
        yield Fact(subject, "server", "", remote, at("url"))
    yield Fact(
        subject, "server_asks", "", server.requires_confirmation, at("requires_confirmation")
    )
    for name, value in server.env.items():
        yield Fact(subject, "variable", name, value, at("env", name))
    for name, value in server.headers.items():
        yield Fact(subject, "header", name, value, at("headers", name))
    yield from _program_facts(toolset, server, subject)


def _program_facts(toolset: Toolset, server: McpServer, subject: str) -> Iterator[Fact]:
    """Yield the facts of the accepted packages, or of the accepted program of the system, that a server starts."""
    lock = toolset.locks.get(server.id)
    if lock is None or lock.value is None:
        return
    program = lock.value.accepted_program(toolset.state.accepted)
    if program is None:
        return
    key = "program" if program == lock.value.program else "replaced_program"

    def at(*loc: str) -> Place:
        return place_in(lock, (key, *loc), key=True)

    if isinstance(program, LockedFile):
        value = {"path": program.path, "sha256": program.sha256}
        yield Fact(subject, "server_file", "", value, at("path"))
        return
    yield Fact(subject, "server_program", "", program.program, at("program"))
    for place, package in program.packages.items():
        facts = {"version": package.version, "hashes": list(package.hashes)}
        yield Fact(subject, "server_package", place, facts, at("packages", place))


# Accepted tools of servers and documents


def _lock_facts(toolset: Toolset, config: ProjectConfig) -> Iterator[Fact]:
    for lock, locked, tool in _accepted_tools(toolset):
        name = tool.id.name
        place = place_in(lock, ("tools", name), key=True)
        yield Fact(tool.tool_id, "tool", "", None, place)
        # The digest in the lock is not enough: a change of the lock by hand may keep it.
        digest = canonical_json.digest(locked.model_dump(mode="json"))
        if tool.http is not None:
            # The definitions of a document are no part of its entry.
            digest = canonical_json.digest([digest, tool.input_schema, tool.output_schema])
        yield Fact(tool.tool_id, "definition", "", digest, place)
        override = _state_place(toolset, "overrides", tool.tool_id, "requires_confirmation")
        yield confirmation_fact(tool, config, override if tool.confirmation_is_settled else place)

        def schema(loc: Loc, lock: Reading[ToolLock] = lock, name: str = name) -> Place:
            return place_in(lock, ("tools", name, "input_schema", *loc))

        if tool.http is not None:

            def request(loc: Loc, lock: Reading[ToolLock] = lock, name: str = name) -> Place:
                return place_in(lock, ("tools", name, "request", *loc[1:]))

            yield from http_facts(tool.tool_id, tool.http, request)
            yield Fact(tool.tool_id, "writes", "", not tool.annotations.read_only, place)
        value = {"schema": tool.input_schema, "unread": {}}
        yield Fact(tool.tool_id, "schema", "", value, schema(()), locate=schema)


def _offer_facts(toolset: Toolset) -> Iterator[Fact]:
    """Yield the facts of accepted resources, resource templates and prompts of servers, which agents can read."""
    accepted = toolset.state.accepted
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    for lock in (
        toolset.locks[server.id]
        for server in servers
        if server.enabled and server.id in toolset.locks
    ):
        if lock.value is None:
            continue
        for name, offer in lock.value.offers.items():
            subject, digest = f"{lock.value.namespace}:{name}", offer.computed_digest
            if accepted.get(subject) == digest:
                place = place_in(lock, ("offers", name), key=True)
                yield Fact(subject, "offer", "", digest, place)


def _accepted_tools(toolset: Toolset) -> Iterator[tuple[Reading[ToolLock], LockedTool, Tool]]:
    """Yield the enabled tools of servers and documents, with their locks."""
    for tool in tools_of(toolset):
        if tool.is_locked:
            lock = toolset.locks[tool.server or tool.source or ""]
            assert lock.value is not None
            yield lock, lock.value.tools[tool.id.name], tool
