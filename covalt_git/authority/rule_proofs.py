"""Rules that decide about no call: a mistake in their pattern, their argument paths or their order.

Such a rule reads as if it protected something.  A rule is not reported if a source of the project was not asked for its tools
yet, because it may be about them.
"""

from __future__ import annotations

import json
from itertools import combinations
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from covalt_git.access.approval_required import applies
from covalt_git.access.argument_conditions import patterns_of
from covalt_git.access.argument_paths import readings_of, schemas_of
from covalt_git.access.shell_arguments import is_shell_argument_of
from covalt_git.json_values.pointer import REF, BadReferenceError
from covalt_git.json_values.subschemas import Subschemas
from covalt_git.manifests.override_keys import namespace_of
from covalt_git.models.rules import ArgumentCondition
from covalt_git.names import matches
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.authority.project_tools import ProjectTools
    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.reading import Reading
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.rules import PolicyRule
    from covalt_git.models.tool import Tool

_ANY: Final = frozenset({"string", "number", "boolean", "null", "array", "object"})
_JSON_TYPES: Final[dict[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}


def rule_problems(config: Reading[ProjectConfig], tools: ProjectTools) -> Iterator[Problem]:
    """Yield a warning for each rule that decides about no call of the project's tools."""
    earlier = _EarlierRules()
    for position, rule in enumerate(config.valid.rules):
        at = config.below(*config.valid.rule_place(position))
        earlier.begin(position, rule)
        if not any(applies(rule, tool) for tool in tools.matching(rule.pattern)):
            if not _may_match_unlisted(rule, tools):
                message = f"no tool of the project matches {rule.pattern}"
                if rule.when.annotations is not None:
                    message += " with these annotations"
                hint = "covalt-git tool list"
                yield at.warning(codes.DEAD_RULE, ("pattern",), message, hint=hint)
            continue
        covering = earlier.covering(rule, tools)
        if covering is not None:
            message = f"rule {covering} decides before it about all of its calls"
            hint = "move this rule up, or remove it"
            yield at.warning(codes.COVERED_RULE, (), message, hint=hint)
            continue
        for path, condition in rule.when.args.items():
            yield from _argument_problems(at.below("when", "args"), tools, rule, path, condition)


def _may_match_unlisted(rule: PolicyRule, tools: ProjectTools) -> bool:
    """Return whether a rule may match tools that are not known: of a broken toolset, or a source without a lock."""
    for toolset in tools.toolsets:
        if toolset.manifest is None or toolset.tool_ids is None:
            return True
        names = [server.id for server in toolset.manifest.mcp_servers]
        names += [source.id for source in toolset.manifest.sources]
        for name in names:
            namespace = namespace_of(name, toolset.state)
            is_listed = name in toolset.locks and toolset.locks[name].value is not None
            literal = rule.pattern.partition("*")[0]
            may_be_in = literal.startswith(f"{namespace}.") or f"{namespace}.".startswith(literal)
            # Prompts and resources of servers have ids too, and are no tools.
            if may_be_in and (not is_listed or name in toolset.locks):
                return True
        others = [prompt.id for prompt in toolset.manifest.prompts]
        others += [resource.id for resource in toolset.manifest.resources]
        if any(matches(rule.pattern, f"{toolset.id}.{name}") for name in others):
            return True
    return rule.pattern.partition(".")[2].startswith("skill")


class _EarlierRules:
    """The rules before one, by their conditions: few of many have a condition that includes another."""

    def __init__(self) -> None:
        self._by_args: dict[frozenset[str], list[tuple[int, PolicyRule]]] = {}
        self._last: tuple[frozenset[str], int, PolicyRule] | None = None

    def begin(self, position: int, rule: PolicyRule) -> None:
        """Note the rule before this one, so that this one is compared with all before it."""
        if self._last is not None:
            args, number, last = self._last
            self._by_args.setdefault(args, []).append((number, last))
        items = rule.condition.get("args", {}).items()
        self._last = (
            frozenset(json.dumps(item, sort_keys=True) for item in items),
            position + 1,
            rule,
        )

    def covering(self, rule: PolicyRule, tools: ProjectTools) -> int | None:
        """Return the number, from 1, of the rule that decides before the last one about all of its calls."""
        assert self._last is not None
        args = self._last[0]
        candidates = sorted(
            (
                numbered
                for rules in self._including(args)
                for numbered in rules
                if _is_wider(numbered[1], rule)
            ),
            key=itemgetter(0),
        )
        if not candidates:
            return None
        covering: set[int] = set()
        for tool in tools.matching(rule.pattern):
            if not applies(rule, tool):
                continue
            number = next((number for number, wider in candidates if applies(wider, tool)), None)
            if number is None:
                return None
            covering.add(number)
        return min(covering)

    def _including(self, args: frozenset[str]) -> Iterator[list[tuple[int, PolicyRule]]]:
        """Yield the rules whose conditions on arguments are among some conditions."""
        if 2 ** len(args) > len(self._by_args):
            yield from (rules for wider, rules in self._by_args.items() if wider <= args)
            return
        for length in range(len(args) + 1):
            for wider in combinations(sorted(args), length):
                yield self._by_args.get(frozenset(wider), [])


def _is_wider(earlier_rule: PolicyRule, rule: PolicyRule) -> bool:
    """Return whether a rule with the same arguments, or fewer, also includes the roles and spellings of a later one."""
    if earlier_rule.roles and not (rule.roles and set(rule.roles) <= set(earlier_rule.roles)):
        return False
    # A rule that allows matches fewer spellings than one with the same condition that limits.
    return not (earlier_rule.when.args and not earlier_rule.requires and rule.requires)


def _argument_problems(
    at: Reading[ProjectConfig], tools: ProjectTools, rule: PolicyRule, path: str, wanted: Any
) -> Iterator[Problem]:
    types: set[str] = set()
    has_argument = False
    for tool in tools.matching(rule.pattern):
        if not applies(rule, tool):
            continue
        if not rule.requires and _is_wide(wanted) and is_shell_argument_of(tool, path):
            message = "allows commands by what they are not: a shell can run any other one"
            hint = "write the whole commands: in: [git status, git log]"
            yield at.warning(codes.WIDE_WAIVER, (path,), message, hint=hint)
            return
        of_tool = _types_at(tool, path)
        has_argument = has_argument or bool(of_tool)
        types |= of_tool
        if types >= _ANY:
            return
    if not has_argument:
        message = f"no tool that the rule matches has the argument {path!r}"
        hint = "covalt-git tool schema TOOL"
        yield at.warning(codes.WRONG_ARGUMENT_OF_RULE, (path,), message, hint=hint, key=True)
        return
    fitting = _fitting_types(wanted, limits=rule.requires)
    if not fitting & types:
        message = (
            f"the argument is {' or '.join(sorted(types))}, which this condition never matches"
        )
        hint = "covalt-git tool schema TOOL"
        yield at.warning(codes.WRONG_ARGUMENT_OF_RULE, (path,), message, hint=hint)


def _is_wide(wanted: Any) -> bool:
    """Return whether a condition names no value that it matches."""
    return (
        isinstance(wanted, ArgumentCondition)
        and wanted.is_in is None
        and wanted.exists is not False
    )


def _types_at(tool: Tool, path: str) -> set[str]:
    """Return the JSON types that an argument can have; empty if the tool does not have it."""
    places = ((schema, names) for schema in schemas_of(tool) for names in readings_of(tool, path))
    return set().union(*(_types_in(schema, names) for schema, names in places))


def _types_in(root: JsonObject, names: Sequence[str]) -> set[str]:
    try:
        subschemas = Subschemas(root)
        parts = subschemas.of_all()
        for name in names:
            inner = subschemas.below(parts, name)
            if not inner:
                # A name on the path of a rule that limits is also about each item of a list.
                items = subschemas.below(parts, "0") if not name.isdigit() else []
                inner = subschemas.below(items, name) if items else []
            if not inner:
                return set(_ANY) if any(map(_is_open, parts)) else set()
            parts = inner
    except BadReferenceError:
        return set(_ANY)
    types = [_types_of(part) for part in parts]
    stated = [of_part for of_part in types if of_part is not None]
    return set().union(*stated) if stated else set(_ANY)


def _is_open(schema: JsonObject) -> bool:
    """Return whether a schema says nothing about the members of its objects."""
    if schema.get("additionalProperties") is False:
        return False
    is_object = schema.get("type", "object") in ("object", ["object"]) or isinstance(
        schema.get("type"), list
    )
    return is_object and "properties" not in schema and not schema.keys() & {"anyOf", "oneOf", REF}


def _types_of(schema: JsonObject) -> set[str] | None:
    """Return the types that a schema states; None if it states none."""
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return {_JSON_TYPES[type(value)] for value in values if type(value) in _JSON_TYPES}
    stated = schema.get("type")
    if stated is None:
        # The caller also gets each alternative as a schema, and its types from that.
        return set() if schema.keys() & {"anyOf", "oneOf", "allOf", REF} else None
    names = [stated] if isinstance(stated, str) else stated
    return {"number" if name == "integer" else name for name in names}


def _fitting_types(wanted: Any, *, limits: bool) -> set[str]:
    """Return the types of the arguments that a condition can match."""
    fitting = set(_ANY)
    if isinstance(wanted, ArgumentCondition):
        if wanted.min is not None or wanted.max is not None:
            fitting &= _spelled("number", limits=limits)
        if wanted.under is not None:
            fitting &= _spelled("string", limits=limits)
        if wanted.is_in is None:
            return fitting
    values = patterns_of(wanted)
    of_values = (
        _spelled(_JSON_TYPES.get(type(value), "object"), limits=limits) for value in values
    )
    return fitting & set().union(*of_values)


def _spelled(name: str, *, limits: bool) -> set[str]:
    """Return a type with those in which a rule that limits also matches: values inside, and scalars as texts."""
    if not limits:
        return {name}
    scalars = (
        {"string", "number", "boolean", "null"} if name in {"number", "boolean", "null"} else {name}
    )
    return (
        scalars
        | {"array", "object"}
        | ({"number", "boolean", "null"} if name == "string" else set())
    )
