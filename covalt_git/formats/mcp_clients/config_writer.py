"""Writing of a host's file: the ``mcp_servers`` of toolsets as the host's servers.

What is written is used in its :class:`Part`; what the host cannot have is dropped there, with what its user can do instead.
"""

from __future__ import annotations

import copy
import functools
import math
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from covalt_git.formats.carried import stored_extension
from covalt_git.formats.mcp_clients import host_variables, tool_rules
from covalt_git.formats.mcp_clients.hosts import (
    DISABLED_TOOLS,
    HOSTS,
    HTTP,
    KEYS_OF_DISABLED,
    PROMPT,
    empty_lists,
    keys_of_off,
)
from covalt_git.formats.model import Part, pointer_text, unused
from covalt_git.names import local_names
from covalt_git.templating.references import references, texts
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from covalt_git.formats.mcp_clients.hosts import Host
    from covalt_git.formats.mcp_clients.tool_rules import ToolRule
    from covalt_git.formats.model import Imported
    from covalt_git.json_values import JsonObject

_VARIABLE = re.compile(
    r"(?P<bearer>Bearer )?\$\{(?:env:|secret:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}"
)


def write(host: Host, toolsets: Sequence[Part], _imported: Imported) -> Any:
    """Return a document in the host's form with the servers of toolsets, under the names that they had in its input."""
    servers: JsonObject = {}
    secrets: list[str] = []
    defaults: dict[str, str] = {}
    for manifest in toolsets:
        manifest.take("id")
        names = _names(manifest)
        # A project's file of Claude Code that named the folder of a plugin gets it back.
        earlier = stored_extension(manifest.value, host.name)
        is_of_plugin = bool(host.own_folder) and any(
            host.own_folder in text for _, text in texts(earlier)
        )
        of_manifest = host._replace(is_of_plugin=is_of_plugin)
        in_servers = [*references(manifest.peek("mcp_servers", []))]
        prompted = {reference.name for _, reference in in_servers if reference.place != "env"}
        secrets += [name for name in manifest.take("secrets", []) if name in prompted]
        rules = _carried_rules(host, manifest, names, earlier)
        for server in manifest.parts("mcp_servers"):
            server_id = server.take("id")
            written = written_server(of_manifest, server)
            if written is not None:
                place = pointer_text((*host.path, names.get(server_id, server_id)))
                carried_tools = _carried_tools(earlier.get("set", {}), place)
                _write_disabled_tools(host, manifest, server_id, written, carried_tools)
                _write_approvals(host, manifest, server_id, written)
                own_keys = {
                    key.removeprefix(f"{place}/"): value
                    for key, value in earlier.get("set", {}).items()
                    if key.startswith(f"{place}/")
                }
                is_off = keys_of_off(host, own_keys) or empty_lists(host, own_keys)
                if server.peek("enabled") is False and is_off:
                    server.take("enabled")
                name = names.get(server_id, server_id)
                _use_rules(manifest, server, [rule for rule in rules if rule.server == name])
                # Two servers of a list can have one name.
                servers[unused(name, servers)] = written
        for loc, reference in in_servers if host.style == "${input:name}" else ():
            if reference.default is None:
                continue
            first = defaults.setdefault(reference.name, reference.default)
            if reference.default != first:
                part = functools.reduce(Part.__getitem__, loc, manifest["mcp_servers"])
                part.drop(f"the input for {reference.name} has the default {shorten(first, 100)!r}")
    value: JsonObject = host.document(servers)
    if host.top and len(toolsets) == 1:
        value["name"] = toolsets[0].take("name")
    if host.style == "${input:name}" and (secrets or defaults):
        inputs = [
            {
                "type": "promptString",
                "id": name.lower(),
                "description": name,
                **({"password": True} if name in secrets else {}),
                **({"default": defaults[name]} if name in defaults else {}),
            }
            for name in dict.fromkeys((*secrets, *defaults))
        ]
        around = host.around(value)
        # First, as VS Code writes them.
        servers_of_host = dict(around)
        around.clear()
        around |= {"inputs": inputs, **servers_of_host}
    return value


def complete(host: Host, value: Any, plain: Any, secrets: Collection[str]) -> Any:
    """Return a restored document with the inputs of these secrets: a list of inputs is carried as a whole."""
    if host.style != "${input:name}":
        return value
    completed = copy.deepcopy(value)
    around = host.around(completed)
    inputs = around.get("inputs", [])
    if not isinstance(inputs, list):
        return value
    defined = [item.get("id") for item in inputs if isinstance(item, dict)]
    named = {name.lower() for name in secrets}.difference(map(str, defined))
    more = [item for item in host.around(plain).get("inputs", ()) if item["id"] in named]
    around["inputs"] = [*inputs, *more]
    return completed if more else value


def _carried_rules(
    host: Host, manifest: Part, names: Mapping[str, str], earlier: JsonObject
) -> list[ToolRule]:
    """Return the rules beside the servers that the file gets back."""
    values = {key[1:]: value for key, value in earlier.get("set", {}).items()}
    servers = [names.get(server["id"], server["id"]) for server in manifest.peek("mcp_servers", [])]
    return tool_rules.read(host, values, servers)[0]


def _use_rules(manifest: Part, server: Part, rules: Sequence[ToolRule]) -> None:
    """Record that the output has what these rules say of a server and of its tools."""
    ids = local_names(rule.tool for rule in rules if rule.tool)
    for rule in rules:
        key, value = tool_rules.KEYS[rule.action]
        tool_id = f"{server.peek('id')}:{ids.get(rule.tool)}"
        parts = manifest.parts("tool_overrides") if rule.tool else [server]
        for part in parts:
            if part.peek(key) is value and (not rule.tool or part.peek("tool_id") == tool_id):
                part.take(key)
                part.take("tool_id")


def _names(manifest: Part) -> dict[str, str]:
    """Return the names in the input of servers whose name differs from their id."""
    original: dict[str, str] = {}
    for host in HOSTS:
        names = stored_extension(manifest.value, host.name).get("names")
        if names:
            original |= manifest["extensions"][host.name].take("names")
    return original


def written_server(host: Host, server: Part) -> JsonObject | None:
    """Return a server of ``mcp_servers`` in the form of a host; None if the host cannot have it."""
    transport = server.take("transport", "")
    fitting = [key for key, kind in host.urls.items() if kind in ("", transport or HTTP)]
    url_key = next(iter([*fitting, *(host.urls if host.types else ())]), None)
    if "url" in server and url_key is None:
        server.drop(f"{host.title} only starts programs, and this server has a URL")
        return None
    kind = transport or ("stdio" if "command" in server else HTTP)
    types = {ours: theirs for theirs, ours in host.types.items()}
    output: JsonObject = dict(host.defaults)
    is_implied = kind not in types if kind == "stdio" else host.urls.get(url_key or "") == HTTP
    has_type = transport or kind != "stdio" or host.lists_command or host.defaults
    if host.types and has_type and not is_implied:
        output["type"] = types.get(kind, types.get(HTTP, ""))
    to_text = partial(host_variables.from_reference, host)
    keys = {"command": host.command, "args": "args", "cwd": "cwd", "url": url_key or ""}
    output |= {keys[key]: server[key].mapped(to_text) for key in keys if key in server}
    if host.lists_command and "command" in output:
        output["command"] = [output["command"], *output.pop("args", ())]
    for ours, theirs in (("env", host.env), ("headers", host.headers)):
        entries = server.entries(ours)
        rest = [
            (name, value)
            for name, value in entries
            if not _write_variable(host, output, name, value)
        ]
        if rest or server.peek(ours) == {}:
            is_inner = ours == "headers" and host.around_headers
            around = output.setdefault(host.around_headers, {}) if is_inner else output
            around[theirs] = {name: to_text(value) for name, value in rest}
        if ours == "headers" and host.header_style and host.env_names:
            values = [server.peek(ours, {}), server.peek("url", "")]
            names = {reference.name for _, reference in references(values)}
            if names:
                output[host.env_names[0]] = sorted(names)
    if "enabled" in server and (host.off or server.peek("enabled") is True):
        is_enabled = server.take("enabled")
        if host.off:
            output[host.off[0]] = is_enabled != host.off[1]
    for key, (name, unit) in host.settings.items():
        if name in server:
            value = server[name].mapped(Part.use)
            output[key] = math.ceil(value / unit) if unit else value
    common = dict(host.settings.values())
    if "start_timeout" in common and "call_timeout" not in common:
        server.drop_keys(f"{host.title} limits the time of the connection only", "call_timeout")
    if server.peek("requires_confirmation") is True and host.approvals is not None:
        server.take("requires_confirmation")
        output[host.approvals[0]] = PROMPT
    elif server.peek("requires_confirmation") is True:
        reason = f"{host.title} has its own settings for approvals"
        server["requires_confirmation"].drop(reason)
    return output


def _write_variable(host: Host, output: JsonObject, name: str, part: Part) -> bool:
    """Write a value that is a variable in the form of the host; return whether it has one."""
    variable = _VARIABLE.fullmatch(part.value) if host.env_names else None
    if variable is None or host.env_names is None:
        return False
    variables, bearer, headers = host.env_names
    is_header, is_bearer = part.loc[-2] == "headers", bool(variable["bearer"])
    if is_bearer and name == "Authorization" and bearer:
        output[bearer] = variable["name"]
    elif is_header and not is_bearer and headers:
        output.setdefault(headers, {})[name] = variable["name"]
    elif not is_header and name == variable["name"]:
        output.setdefault(variables, []).append(name)
    else:
        return False
    part.use()
    return True


def _carried_tools(values: JsonObject, place: str) -> set[str]:
    """Return the ids of the disabled tools of a server in a list of another host, which the file gets back."""
    lists = [values.get(f"{place}/{key}") for key in KEYS_OF_DISABLED]
    tools = [item for items in lists if isinstance(items, list) for item in items]
    return {*local_names(item for item in tools if isinstance(item, str)).values()}


def _write_disabled_tools(
    host: Host,
    manifest: Part,
    server_id: str,
    output: JsonObject,
    carried_tools: Collection[str],
) -> None:
    """Add the tools of a server that the toolset disables, if the host has a key for them.

    ``carried_tools`` come back with a list that another host has, which was in the host's file.
    """
    keys = [key for key, (name, _) in host.settings.items() if name == DISABLED_TOOLS]
    for override in manifest.parts("tool_overrides"):
        namespace, _, name = override.peek("tool_id").rpartition(":")
        if namespace != server_id or override.peek("enabled") is not False:
            continue
        if keys:
            override.take("enabled")
            output.setdefault(keys[0], []).append(override["tool_id"].use().rpartition(":")[2])
        elif name in carried_tools:
            override.take("enabled")
            override.take("tool_id")
        else:
            override.drop_keys(
                f"{host.title} has no list of disabled tools: disable {name!r} there",
                *override.value,
            )


def _write_approvals(host: Host, manifest: Part, server_id: str, output: JsonObject) -> None:
    """Add the tools of a server whose calls need a confirmation, if the host has keys for them."""
    for override in manifest.parts("tool_overrides") if host.approvals is not None else ():
        namespace, _, name = override.peek("tool_id").rpartition(":")
        if namespace == server_id and override.peek("requires_confirmation") is True:
            assert host.approvals is not None
            _, key, of_tool = host.approvals
            override.take("tool_id")
            override.take("requires_confirmation")
            output.setdefault(key, {})[name] = {of_tool: PROMPT}
