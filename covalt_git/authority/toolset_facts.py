"""What a toolset may do, as facts that ``authority show`` and ``authority diff`` compare.

They are its requested permissions, grants, servers, sources, OAuth logins and accepted tools.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from covalt_git.access.grants import holds, keeping
from covalt_git.authority.facts import Fact, Loc, Place
from covalt_git.authority.kinds import package_of
from covalt_git.authority.tool_facts import ToolPlaces, confirmation_fact, tool_facts
from covalt_git.checks.toolset_checks import module_path
from covalt_git.json_values import canonical_json
from covalt_git.manifests.override_keys import overridden_tool, override_key
from covalt_git.manifests.skills import SKILL, skill_path
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
    from covalt_git.models.base import StrictModel
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.tool import Tool
    from covalt_git.models.tool_lock import LockedTool, ToolLock
    from covalt_git.models.toolset_manifest import Auth, McpServer, Source, ToolsetManifest
    from covalt_git.models.toolset_state import Grant, ToolsetState
    from covalt_git.python_reader.source import ToolDefinition
    from covalt_git.toolsets.toolset import Toolset


@dataclass(frozen=True, slots=True)
class ReadToolset:
    """A toolset with the documents that define it, its Python sources, and its locks."""

    toolset: Toolset
    manifest: Reading[ToolsetManifest]
    state: Reading[ToolsetState]
    sources: Mapping[str, ToolDefinition] = field(default_factory=dict)
    locks: tuple[Reading[ToolLock], ...] = ()


def place_in(
    reading: Reading[StrictModel]
    | Reading[ToolsetManifest]
    | Reading[ToolsetState]
    | Reading[ToolLock],
    loc: Loc,
    *,
    key: bool = False,
) -> Place:
    """Return the place of a value in a file, or of its parent if the file does not contain it."""
    if reading.document is None:
        return Place(reading.path)
    return Place(reading.path, *reading.document.locate(loc, key=key))


def toolset_facts(read: ReadToolset, config: ProjectConfig) -> Iterator[Fact]:
    """Yield the facts of a toolset, its tools, servers and sources; if disabled, only its grants."""
    manifest = read.manifest.value
    assert manifest is not None
    yield from _grant_facts(read)
    if not read.toolset.enabled:
        return
    subject = read.toolset.id
    is_set = read.state.value is not None and read.state.value.enabled is not None
    enabled = place_in(read.state, ("enabled",)) if is_set else place_in(read.manifest, ("id",))
    yield Fact(subject, "toolset", "", None, enabled)
    imported = place_in(read.state, ("source_type",))
    own = not read.toolset.state.imported
    yield Fact(subject, "own", "", own, enabled if own else imported)
    yield Fact(subject, "code", "", _code_digest(read.toolset), Place(f"toolsets/{subject}"))
    yield from _skill_facts(read.toolset)
    for position, name in enumerate(manifest.secrets):
        yield Fact(subject, "secret", name, None, place_in(read.manifest, ("secrets", position)))
    for position, text in enumerate(manifest.python.dependencies):
        place = place_in(read.manifest, ("python", "dependencies", position))
        yield Fact(subject, "package", package_of(text), text, place)
    for name, alias in sorted(read.toolset.state.aliases.items()):
        yield Fact(subject, "alias", name, alias, place_in(read.state, ("aliases", name)))
    for tool in tools_of(read):
        if tool.kind != "mcp":
            yield from tool_facts(tool, config, _tool_places(read, tool))
    yield from _server_facts(read, manifest)
    yield from _source_facts(read, manifest)
    for position, auth in enumerate(manifest.auth):
        yield from _auth_facts(read, position, auth)
    yield from _override_facts(read, manifest)
    yield from _lock_facts(read, config)


def tools_of(read: ReadToolset) -> tuple[Tool, ...]:
    """Return the enabled tools of a toolset and of its servers."""
    return tuple(tool for tool in read.toolset.tools if tool.enabled)


def _code_digest(toolset: Toolset) -> str:
    return _digest_of(
        f"{one.path}\0{one.sha256}" for one in toolset.files.files if one.kind == "python"
    )


def _digest_of(rows: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(rows).encode("utf-8", "surrogateescape")).hexdigest()


def _skill_facts(toolset: Toolset) -> Iterator[Fact]:
    """Yield a fact for each skill; its value is the digest of the files of the skill."""
    for skill in toolset.skills:
        path = skill_path(skill.name)
        folder = path.removesuffix(SKILL)
        rows = [
            f"{one.path}\0{one.sha256}"
            for one in toolset.files.files
            if one.path.startswith(folder)
        ]
        place = Place(f"toolsets/{toolset.id}/{path}", 1, 1)
        yield Fact(toolset.id, "skill", skill.name, _digest_of(rows), place)


# Grants


def _grant_facts(read: ReadToolset) -> Iterator[Fact]:
    """Yield the facts of valid grants, and a ``stale`` fact for each that changed files made invalid."""
    toolset = read.toolset
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    for key, grant in sorted(toolset.state.grants.items()):
        valid = holds(grant, toolset.digest, servers, toolset.files.hashes, toolset.tools)
        only = () if valid else _keeping(grant, toolset)
        for fact in _granted(read, key, grant):
            if valid:
                yield fact
            elif only and fact.kind != "secret_use":
                yield replace(fact, value=fact.value | {"only": only})
            else:
                item = f"{fact.kind} {fact.item}"
                yield Fact(fact.subject, "stale", item, None, fact.place, implied=True)


def _keeping(grant: Grant, toolset: Toolset) -> tuple[str, ...]:
    if not isinstance(grant, NetworkGrant | SecretGrant):
        return ()
    return keeping(grant, toolset.tools)


def _granted(read: ReadToolset, key: str, grant: Grant) -> Iterator[Fact]:
    subject = read.toolset.id
    value: JsonObject = {"digest": grant.digest}
    place = place_in(read.state, ("grants", key), key=True)
    match grant:
        case NetworkGrant():
            for position, host in enumerate(grant.hosts):
                at = place_in(read.state, ("grants", key, "hosts", position))
                yield Fact(subject, "network", host, value, at)
        case SecretGrant():
            # The toolset's Python gets the secret, whatever the hosts are.
            yield Fact(subject, "secret_use", grant.name, value, place, implied=bool(grant.hosts))
            for position, host in enumerate(grant.hosts):
                at = place_in(read.state, ("grants", key, "hosts", position))
                yield Fact(subject, "secret_to", f"{grant.name} to {host}", value, at)
        case ProcessGrant():
            more: JsonObject = {
                "argv": list(grant.argv),
                "cwd": grant.cwd,
                "env": sorted(grant.env),
                "files": dict(grant.files),
            }
            yield Fact(subject, "process", grant.server, value | more, place)
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


def _tool_places(read: ReadToolset, tool: Tool) -> ToolPlaces:
    manifest = read.manifest.value
    assert manifest is not None
    if tool.toolset_id == REGISTRY_NAMESPACE:
        entry = Place(read.manifest.path)
        return ToolPlaces(lambda _: entry, lambda _: entry, entry)
    name = tool.id.name
    above: Loc = ("tools", next(at for at, one in enumerate(manifest.tools) if one.id == name))
    source = read.sources.get(name)
    code = place_in(read.manifest, (*above, "entrypoint"))
    if source is not None and tool.entrypoint is not None:
        module = tool.entrypoint.partition(":")[0]
        path = module_path(module, [one.path for one in read.toolset.files.files])
        if path is not None:
            code = Place(f"toolsets/{read.toolset.id}/{path}", source.line, source.col)

    def declared(loc: Loc) -> Place:
        return place_in(read.manifest, (*above, *loc), key=len(loc) > 1)

    def schema(loc: Loc) -> Place:
        if tool.schema_is_declared:
            return declared(("input_schema", *loc))
        return code

    confirmation = place_in(read.manifest, (*above, "requires_confirmation"))
    asks = tool.confirmation[:1]
    local = read.toolset.state.overrides.get(name)
    if local is not None and local.requires_confirmation is not None:
        confirmation = place_in(read.state, ("overrides", name, "requires_confirmation"))
    elif asks == ("decorator",):
        confirmation = code
    elif asks == ("destructive",):
        confirmation = place_in(read.manifest, (*above, "annotations", "destructive"))
    elif asks == ("override",):
        confirmation = _override_place(read, manifest, tool.tool_id)
    elif asks and manifest.tools[int(above[1])].requires_confirmation is None:
        confirmation = place_in(read.manifest, ("defaults", "requires_confirmation"))
    return ToolPlaces(declared, schema, confirmation)


def _override_place(read: ReadToolset, manifest: ToolsetManifest, tool_id: str) -> Place:
    at = next(
        at
        for at, one in enumerate(manifest.tool_overrides)
        if override_key(manifest.id, one.tool_id) == tool_id
    )
    return place_in(read.manifest, ("tool_overrides", at, "requires_confirmation"))


# Servers, sources and OAuth logins


def _server_facts(read: ReadToolset, manifest: ToolsetManifest) -> Iterator[Fact]:
    for position, server in enumerate(manifest.mcp_servers):
        if server.enabled:
            yield from _one_server(read, ("mcp_servers", position), server)


def _one_server(read: ReadToolset, above: Loc, server: McpServer) -> Iterator[Fact]:
    def at(*loc: str | int) -> Place:
        return place_in(read.manifest, (*above, *loc))

    subject = f"server {read.toolset.id}:{server.id}"
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


def _source_facts(read: ReadToolset, manifest: ToolsetManifest) -> Iterator[Fact]:
    for position, source in enumerate(manifest.sources):
        if source.enabled:
            yield from _one_source(read, ("sources", position), source)


def _one_source(read: ReadToolset, above: Loc, source: Source) -> Iterator[Fact]:
    def at(*loc: str | int) -> Place:
        return place_in(read.manifest, (*above, *loc))

    subject = f"source {read.toolset.id}:{source.id}"
    separate = {"id", "headers", "include", "exclude", "requires_confirmation", "enabled"}
    fields = source.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=separate)
    for name in ("spec", "schema"):
        file = read.toolset.files.get(fields[name]) if name in fields else None
        fields |= {f"{name} is": file.sha256} if file else {}
    yield Fact(subject, "source", "", fields, at("id"))
    for name, value in source.headers.items():
        yield Fact(subject, "header", name, value, at("headers", name))
    if not source.include:
        yield Fact(subject, "include", "*", None, at("id"))
    for position, pattern in enumerate(source.include):
        yield Fact(subject, "include", pattern, None, at("include", position))
    for position, pattern in enumerate(source.exclude):
        yield Fact(subject, "exclude", pattern, None, at("exclude", position))
    asks = bool(source.requires_confirmation)
    yield Fact(subject, "server_asks", "", asks, at("requires_confirmation"))


def _override_facts(read: ReadToolset, manifest: ToolsetManifest) -> Iterator[Fact]:
    """Yield overrides that require approval of tools not accepted yet, unless the tools' server requires it."""
    known = {tool.tool_id for tool in tools_of(read)}
    approval = _approval_by_server(manifest)
    for position, override in enumerate(manifest.tool_overrides):
        namespace = override.tool_id.partition(":")[0]
        tool_id = overridden_tool(manifest.id, override.tool_id, read.toolset.state)
        required = approval.get(namespace)
        if override.requires_confirmation and required is False and tool_id not in known:
            place = place_in(read.manifest, ("tool_overrides", position, "requires_confirmation"))
            yield Fact(read.toolset.id, "asks_for", override.tool_id, None, place)


def _approval_by_server(manifest: ToolsetManifest) -> dict[str, bool]:
    """Return, for the id of each enabled server and source, whether its tools require approval."""
    servers = {one.id: one.requires_confirmation for one in manifest.mcp_servers if one.enabled}
    sources = {one.id: bool(one.requires_confirmation) for one in manifest.sources if one.enabled}
    return servers | sources


def _auth_facts(read: ReadToolset, position: int, auth: Auth) -> Iterator[Fact]:
    def at(*loc: str | int) -> Place:
        return place_in(read.manifest, ("auth", position, *loc))

    subject = f"sign-in {read.toolset.id}:{auth.id}"
    value = {"type": auth.type, "provider": auth.provider, "token": auth.token}
    yield Fact(subject, "sign_in", "", value, at("id"))
    for number, scope in enumerate(auth.scopes):
        yield Fact(subject, "scope", scope, None, at("scopes", number))


# Accepted tools of servers and sources


def _lock_facts(read: ReadToolset, config: ProjectConfig) -> Iterator[Fact]:
    for lock, locked, tool in _accepted_tools(read):
        name = tool.id.name
        place = place_in(lock, ("tools", name), key=True)
        yield Fact(tool.tool_id, "tool", "", None, place)
        # The digest in the lock is not enough: a change of the lock by hand may keep it.
        digest = canonical_json.digest(locked.model_dump(mode="json"))
        yield Fact(tool.tool_id, "definition", "", digest, place)
        override = place_in(read.state, ("overrides", tool.tool_id, "requires_confirmation"))
        yield confirmation_fact(tool, config, override if tool.confirmation_is_settled else place)

        def schema(loc: Loc, lock: Reading[ToolLock] = lock, name: str = name) -> Place:
            return place_in(lock, ("tools", name, "input_schema", *loc))

        yield Fact(tool.tool_id, "schema", "", locked.input_schema, schema(()), locate=schema)


def _accepted_tools(read: ReadToolset) -> Iterator[tuple[Reading[ToolLock], LockedTool, Tool]]:
    """Yield the enabled tools of servers and sources, with their locks."""
    for tool in tools_of(read):
        if tool.server is not None:
            lock = read.toolset.locks[tool.server]
            assert lock.value is not None
            yield lock, lock.value.tools[tool.id.name], tool
