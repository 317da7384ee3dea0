"""Tools that a host does not offer, or for whose calls it asks its user, as its file says beside the servers.

The rules name a tool together with its server, some by a pattern, and the last one that matches decides.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.credentials.leaks import masked
from covalt_git.formats.model import Note
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.formats.mcp_clients.hosts import Host, RulesPlace
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

OFF: Final = "off"
ASK: Final = "ask"
KEYS: Final = {OFF: ("enabled", False), ASK: ("requires_confirmation", True)}
"""The key and the value in ``toolset.yaml`` of what a host does."""

_ALLOW: Final = "allow"
_PART: Final = "part"
_ACTIONS: Final = {
    **dict.fromkeys(("false", "deny", OFF), OFF),
    **dict.fromkeys(("confirm", ASK), ASK),
    **dict.fromkeys(("true", _ALLOW), _ALLOW),
}
"""The words of all hosts for what they do with a tool."""

_WILD: Final = re.compile(r"[*?]")
_OTHER_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_-]")


class ToolRule(NamedTuple):
    """What a host does with a tool of a server, or with all of them if ``tool`` is empty, and where its file says so."""

    loc: Loc
    server: str
    tool: str
    action: str


class _Rule(NamedTuple):
    """A rule as the file has it; an ``owner`` is an agent of the host, for which alone it holds."""

    loc: Loc
    pattern: str
    action: str
    owner: str = ""

    def reach(self, prefixes: Sequence[str]) -> str | None:
        """Return the tool of a server that the rule names: ``*`` for all, ``?`` for some; None if it names none."""
        wild = _WILD.search(self.pattern)
        for prefix in prefixes:
            if wild is None and self.pattern.startswith(prefix) and self.pattern != prefix:
                return self.pattern[len(prefix) :]
            if (
                f"{self.pattern}__" == prefix
            ):  # Claude Code: the name of a server is all of its tools
                return "*"
            head = self.pattern[: wild.start()] if wild else ""
            if wild and prefix.startswith(head) and self.pattern == f"{head}*":
                return "*"
            if wild and (prefix.startswith(head) or head.startswith(prefix)):
                return "*" if self.pattern == f"{prefix}*" else "?"
        return None


def read(host: Host, settings: Any, servers: Sequence[str]) -> tuple[list[ToolRule], list[Note]]:
    """Return the rules of a host's file for these of its servers, and notes about what no toolset can say."""
    every = list(dict.fromkeys((*servers, *(host.servers(settings) or ()))))
    rules, notes = _not_started(host, settings, servers)
    profile = _active_profile(host, settings)
    if profile is not None:
        of_profile, notes_of_profile = _of_profile(host, profile, servers)
        rules += of_profile
        notes += notes_of_profile
    written = [rule for place in host.rules for rule in _rules(host, settings, place, profile)]
    for server in servers:
        own = [(rule, tool) for rule in written if (tool := _tool(host, rule, server, every))]
        notes += _without_effect(server, own)
        common = [item for item in own if not item[0].owner and item[0].action != _PART]
        of_server = next((rule for rule, tool in reversed(common) if tool == "*"), None)
        is_off = of_server is not None and of_server.action == OFF
        if of_server is not None and of_server.action != _ALLOW:
            rules.append(ToolRule(of_server.loc, server, "", of_server.action))
        offered = []
        for name in dict.fromkeys(tool for _, tool in common if tool not in {"*", "?"}):
            last = _last(host, common, server, name)
            if is_off and last.action != OFF:
                offered.append(name)
            elif not is_off and last.action != _ALLOW:
                rules.append(ToolRule(last.loc, server, name, last.action))
        if of_server is not None and is_off:
            names = shorten(", ".join(map(repr, offered)), 200)
            message = f"{host.title} offers no tool of {server!r}, which is disabled"
            if offered:
                message = f"{host.title} offers only {names} of {server!r}, which is disabled: enable it, and accept only these"
            asks = [name for name in offered if _last(host, common, server, name).action == ASK]
            if asks:
                message += f"; for {', '.join(map(repr, asks))} it asks before each call"
            notes.append(Note(of_server.loc, message))
        if of_server is not None and of_server.action == ASK:
            for rule, tool in common:
                if rule.action == _ALLOW and _last(host, common, server, tool) is rule:
                    message = f"{host.title} does not ask before calls of {tool!r}, the toolset does: its server needs it"
                    notes.append(Note(rule.loc, message, is_lost=True))
        for rule, tool in common if not is_off else ():
            if tool == "?" and rule.action != _ALLOW:
                fate = "disable" if rule.action == OFF else "require confirmation of"
                message = f"{fate} the tools of {server!r} that {rule.pattern!r} matches: a toolset has no patterns of tools"
                notes.append(Note(rule.loc, message, is_lost=True))
    for rule in written:
        # Older versions of Gemini CLI have no server in the name of a tool.
        is_name = re.fullmatch(r"[\w.-]+", rule.pattern) and rule.pattern not in host.own_tools
        is_older = host.own_tools and is_name and servers
        if is_older and not any(_tool(host, rule, server, every) for server in every):
            message = f"disable {rule.pattern!r} if a server of the toolset has this tool"
            notes.append(Note(rule.loc, message))
    return rules, [note._replace(message=masked(note.message)) for note in notes]


def _not_started(
    host: Host, settings: Any, servers: Sequence[str]
) -> tuple[list[ToolRule], list[Note]]:
    """Return what the lists beside the servers say by which the host does not start some of them."""
    rules: list[ToolRule] = []
    notes: list[Note] = []
    for key, allowed, excluded in host.choices:
        path = (key,) if key else ()
        for loc, listed in (
            *_places(settings, (*path, allowed)),
            *_places(settings, (*path, excluded)),
        ):
            if not isinstance(listed, list) or not listed:
                continue
            choice = loc[-1]
            others = [name for name in servers if (name in listed) == (choice == excluded)]
            rules += [ToolRule(loc, name, "", OFF) for name in others]
            if others:
                names = ", ".join(map(repr, others))
                message = f"{host.title} does not start {names}: disabled in the toolset too"
                notes.append(Note(loc, message))
    return rules, notes


class _Profile(NamedTuple):
    """The profile of a host's agent that is active at its start, and where the file says which one it is."""

    name: str
    loc: Loc
    value: JsonObject
    all_servers: bool
    says_all: Loc


def _active_profile(host: Host, settings: Any) -> _Profile | None:
    """Return the active profile; None if the host has none, or the file does not define it."""
    if host.profiles is None:
        return None
    path, active, all_servers, built_in = host.profiles
    chosen = next((value for _, value in _places(settings, active)), None)
    name = chosen if isinstance(chosen, str) else next(iter(built_in))
    loc, value = next(_places(settings, (*path, name)), ((*path, name), None))
    if not isinstance(value, dict):
        if built_in.get(name, True):
            return None
        value = {}
    has_all = isinstance(value.get(all_servers), bool)
    is_all = value[all_servers] if has_all else built_in.get(name, False)
    return _Profile(name, loc, value, is_all, (*loc, all_servers) if has_all else tuple(active))


def _of_profile(
    host: Host, profile: _Profile, servers: Sequence[str]
) -> tuple[list[ToolRule], list[Note]]:
    """Return what the active profile says of servers of which it does not offer all tools."""
    rules: list[ToolRule] = []
    notes: list[Note] = []
    presets = profile.value.get("context_servers")
    presets = presets if isinstance(presets, dict) else {}
    of_profile = f"the active profile {profile.name!r} of {host.title}"
    for server in servers:
        preset = presets.get(server)
        preset = preset if isinstance(preset, dict) else {}
        place = (*profile.loc, "context_servers", server)
        says = "enabled" if isinstance(preset.get("enabled"), bool) else ""
        tools = preset.get("tools")
        tools = tools if isinstance(tools, dict) and not says else {}
        if preset["enabled"] if says else profile.all_servers:
            if False in tools.values():
                message = f"{of_profile} does not offer these tools of {server!r}: disabled in the toolset, whatever the profile"
                notes.append(Note((*place, "tools"), message))
            continue
        offered = [name for name, value in tools.items() if value is True]
        if offered:
            names = shorten(", ".join(map(repr, offered)), 200)
            message = f"{of_profile} offers only {names} of {server!r}: accept only these"
            notes.append(Note((*place, "tools"), message, is_lost=True))
            continue
        loc = (*place, says) if says else profile.says_all
        rules.append(ToolRule(loc, server, "", OFF))
        message = f"{of_profile} offers no tool of {server!r}: disabled in the toolset, whatever the profile"
        notes.append(Note(loc, message))
    return rules, notes


def _without_effect(server: str, own: Sequence[tuple[_Rule, str]]) -> Iterator[Note]:
    owners = {rule.owner: rule.loc for rule, _ in own if rule.owner}
    for owner, loc in owners.items():
        message = (
            f"the choice of {owner!r} among the tools of {server!r} has no effect in a toolset"
        )
        yield Note(loc, message, is_lost=True)
    for rule, _ in own:
        if rule.action == _PART:
            message = f"a rule for some calls of {rule.pattern!r} has no effect in a toolset"
            yield Note(rule.loc, message, is_lost=True)


def _prefixes(host: Host, server: str) -> list[str]:
    """Return the starts of the names of a server's tools; most hosts replace characters that models do not accept."""
    names = dict.fromkeys((server, _OTHER_CHARACTERS.sub("_", server)))
    return [start.format(server=name) for start in host.tool_names for name in names]


def _tool(host: Host, rule: _Rule, server: str, servers: Sequence[str]) -> str | None:
    """Return what a rule names of a server; a name that two servers begin belongs to the longer one."""
    tool = rule.reach(_prefixes(host, server))
    if tool is None or tool in {"*", "?"}:
        return tool
    others = [rule.reach(_prefixes(host, other)) for other in servers if other != server]
    is_own = all(other is None or len(other) >= len(tool) for other in others)
    return tool if is_own else None


def _last(host: Host, common: Sequence[tuple[_Rule, str]], server: str, tool: str) -> _Rule:
    names = [f"{prefix}{tool}" for prefix in _prefixes(host, server)]
    return next(
        rule
        for rule, reached in reversed(common)
        if reached in {tool, "*"} or any(fnmatchcase(name, rule.pattern) for name in names)
    )


def _rules(
    host: Host, settings: Any, place: RulesPlace, profile: _Profile | None
) -> Iterator[_Rule]:
    for loc, value in _places(settings, place.path):
        keys = dict(zip(place.path, map(str, loc), strict=True))
        server = keys.get("{server}")
        start = _prefixes(host, server)[0] if server else ""
        owner = keys.get("{owner}", "")
        rules: Any = value
        if profile is not None and owner == profile.name:
            owner = ""
            tools = value.items() if isinstance(value, dict) else ()
            # What the profile offers can still be denied by another rule.
            rules = {tool: item for tool, item in tools if item is False}
        if isinstance(rules, str):
            yield from _rule(loc, "*", rules, owner)
        for at, item in enumerate(rules) if isinstance(rules, list) else ():
            if isinstance(item, str) and item:
                name = f"{_prefixes(host, item)[0]}*" if place.lists_servers else item
                yield _Rule((*loc, at), name, place.action)
            elif isinstance(item, dict) and place.name and isinstance(item.get(place.name), str):
                pattern = item[place.name]
                if item.get(place.calls, "*") == "*":
                    yield from _rule((*loc, at), pattern, item.get(place.key), owner)
                else:
                    yield _Rule((*loc, at), pattern, _PART, owner)
        for name, item in rules.items() if isinstance(rules, dict) else ():
            if not isinstance(item, dict):
                yield from _rule((*loc, name), start + name, item, owner)
                continue
            yield from _rule((*loc, name, place.key), start + name, item.get(place.key), owner)
            if item.keys() - {place.key}:
                yield _Rule((*loc, name), name, _PART, owner)


def _rule(loc: Loc, pattern: str, action: Any, owner: str) -> Iterator[_Rule]:
    word = _ACTIONS.get(str(action).lower())
    if word:
        yield _Rule(loc, pattern, word, owner)


def _places(value: Any, path: Sequence[str], loc: Loc = ()) -> Iterator[tuple[Loc, Any]]:
    """Yield the values at a path, of which a part in braces is any key."""
    if not path:
        yield loc, value
        return
    keys = [*value] if path[0].startswith("{") and isinstance(value, dict) else [path[0]]
    for key in keys:
        if isinstance(value, dict) and key in value:
            yield from _places(value[key], path[1:], (*loc, key))
