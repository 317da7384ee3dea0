"""Checks of an HTTP tool's request, and the schema of its arguments if the tool declares none.

The checks: the host of the URL does not depend on arguments, arguments exist, secrets are declared, and no
header is one that covalt-git sets itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from covalt_git.checks.parameters import COMPOSING
from covalt_git.checks.references import reference_problems
from covalt_git.errors import Problem, nearest_name
from covalt_git.models.http_placement import (
    FILE_PREFIX,
    Placement,
    graphql_variables,
    placement,
)
from covalt_git.models.tool_properties import HttpBody
from covalt_git.problems import codes
from covalt_git.templating.expressions import expressions
from covalt_git.templating.references import texts
from covalt_git.templating.url_templates import BadTemplateError, UrlTemplate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.model_errors import Loc
    from covalt_git.manifests.reading import Reading
    from covalt_git.models.tool_properties import HttpRequest
    from covalt_git.models.toolset_manifest import ToolDeclaration, ToolsetManifest

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NEARLY = re.compile(
    r"(?<!\$)(?:\$\$)*\$(?!args\.)(?i:args?|arguments?|params?|input)"
    r"\.(?P<name>[\w-]+)(?:\.[\w-]+)*"
)
"""Misspelt expressions of arguments: ``$arg.city`` or ``$Args.city`` for ``$args.city``."""

_NEARLY_IN_URL = re.compile(r"\$(?i:args?|arguments?|params?|input)\.(?P<name>[\w-]+)")
"""Expressions in a URL, whose arguments are in braces: ``{city}``."""

_BRACES = re.compile(
    r"\{\{\s*\$?(?:(?P<root>(?i:args?|arguments?|params?|input))\.)?(?P<name>[A-Za-z_][\w-]*)\s*\}\}"
)
"""Placeholders of other systems: ``{{city}}``."""

_NAMED = re.compile(
    r"(?<![{$])\{\s*(?:args\.)?([A-Za-z_][\w-]*)\s*\}(?!\})"
    r"|(?<!\$)(?:\$\$)*\$args\[\s*[\"']?([\w-]+)[\"']?\s*\]"
    r"|(?<!\$)(?:\$\$)*\$(?!(?i:args?|arguments?|params?|input)\b)([A-Za-z_]\w*)"
)
"""Placeholders that name an argument without ``$args``: ``{city}``, ``$city``, ``$args[city]``."""

_NAMED_IN_URL = re.compile(
    r"(?<=/):([A-Za-z_]\w*)|(?<!\$)\$(?:args\[[\"']?)?([A-Za-z_]\w*)[\"']?\]?"
)
_GRAPHQL = re.compile(r"\s*(?:(?:query|mutation|subscription|fragment)\b|\{\s*\w+[\s({])")

_PLACES_OF_STYLES = {
    **dict.fromkeys(("label", "matrix"), ("path",)),
    **dict.fromkeys(("repeat", "space", "pipe", "tab", "deep"), ("query", "body")),
}
"""The styles that only some places can have."""

_VARIABLES = {
    "Int": ("integer",),
    "Float": ("number",),
    "String": ("string",),
    "Boolean": ("boolean",),
    "ID": ("string", "integer"),
}
"""The JSON types of variables of a GraphQL query whose types are built in."""

# The client states the host and the length: a second value could name another host, or end the request earlier.
_RESERVED_HEADERS = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "accept-encoding"),
        *("te", "trailer", "upgrade", "expect", "keep-alive", "proxy-authorization", "cookie"),
    }
)


def check_http(
    reading: Reading[ToolsetManifest],
    loc: Loc,
    tool: ToolDeclaration,
    manifest: ToolsetManifest,
) -> Iterator[Problem]:
    """Return the problems of the request of an HTTP tool, which is at ``loc``."""
    http = tool.http
    if http is None:
        return
    reading = reading.below(*loc, "http")
    yield from _check_names(reading, http)
    yield from _check_texts(reading, http)
    yield from _check_placeholders(reading, http, tool.input_schema)
    parts = {"url": http.url, **_templates(http)}
    yield from reference_problems(reading, parts, manifest.secrets, auth=manifest.auth)
    try:
        placed = placement(http)
    except BadTemplateError as error:
        # The arguments of a broken URL are unknown, so the checks of arguments would report each of them.
        yield reading.problem(codes.BAD_REQUEST, ("url",), error.message, hint=error.hint)
        return
    yield from _check_places(reading, http, placed)
    if tool.input_schema is not None:
        yield from _check_arguments(reading, http, placed, tool.input_schema)


def inferred_schema(http: HttpRequest) -> JsonObject:
    """Return the schema of the arguments that a request names; those of the URL's path and of variables with ``!`` are required."""
    try:
        placed = placement(http)
    except BadTemplateError:
        return {"type": "object"}
    properties: JsonObject = {
        name: {"type": "string"} if name in placed.needed else {}
        for name in _argument_names(http, placed)
    }
    of_query = graphql_variables(http)
    for name in of_query.keys() & properties.keys():
        text = of_query[name].rstrip("=")
        types = _VARIABLES.get(text.rstrip("!"), ())
        null = () if text.endswith("!") else ("null",)
        properties[name] = {"type": [*types, *null]} if types else {}
    schema: JsonObject = {"type": "object", "properties": properties}
    variables = [name for name in properties if of_query.get(name, "").endswith("!")]
    if required := [*placed.needed, *variables]:
        schema["required"] = list(dict.fromkeys(required))
    if not placed.takes_all:
        schema["additionalProperties"] = False
    return schema


def _argument_names(http: HttpRequest, placed: Placement) -> list[str]:
    """Return the arguments that a request names, first the arguments in the URL."""
    in_url = [argument.name for argument in UrlTemplate.parse(http.url).arguments]
    return list(dict.fromkeys([*(name for name in in_url if name in placed.named), *placed.named]))


def _check_names(reading: Reading[ToolsetManifest], http: HttpRequest) -> Iterator[Problem]:
    headers: list[tuple[Loc, str]] = [(("headers", name), name) for name in http.headers]
    cookies: list[tuple[Loc, str]] = [(("cookies", name), name) for name in http.cookies]
    for name, parameter in http.parameters.items():
        where = {"header": headers, "cookie": cookies}.get(parameter.location)
        if where is not None:
            key = "in" if parameter.name is None else "name"
            where.append((("parameters", name, key), parameter.name or name))
    for loc, name in (*headers, *cookies):
        if not _TOKEN.fullmatch(name):
            message = f"{name!r} is not a valid name of a header or cookie"
            hint = "use letters, digits and -"
            is_key = loc[0] != "parameters"
            yield reading.problem(codes.BAD_REQUEST, loc, message, hint=hint, key=is_key)
    for loc, name in headers:
        if name.lower() in _RESERVED_HEADERS:
            hint = "write it under cookies" if name.lower() == "cookie" else "remove it"
            message = f"covalt-git sets the header {name!r} itself"
            is_key = loc[0] != "parameters"
            yield reading.problem(codes.BAD_REQUEST, loc, message, hint=hint, key=is_key)


def _templates(http: HttpRequest) -> JsonObject:
    """Return the parts of a request whose texts can contain expressions."""
    parts: JsonObject = {"query": http.query, "headers": http.headers, "cookies": http.cookies}
    if isinstance(http.body, HttpBody):
        # A GraphQL query is sent as it is written.
        parts["body"] = http.body.model_dump(by_alias=True, exclude_none=True, exclude={"graphql"})
    return parts


def _check_texts(reading: Reading[ToolsetManifest], http: HttpRequest) -> Iterator[Problem]:
    """Find expressions other than ``$args``, and paths of files without the prefix ``$workspace/``."""
    for loc, text in texts(_templates(http)):
        inner = text
        if loc[:2] == ("body", "multipart") or loc == ("body", "file"):
            inner = text.removeprefix(FILE_PREFIX)
        if loc == ("body", "file") and inner == text:
            message = f"{text[:60]!r} is not the path of a workspace file"
            hint = f"write {FILE_PREFIX}$args.path"
            yield reading.problem(codes.BAD_REQUEST, loc, message, hint=hint)
        for expression in expressions(inner):
            if expression.root != "args":
                message = f"{expression.text} is not available in a request"
                hint = "write $args.name for an argument, or $$ for a dollar"
                yield reading.problem(codes.BAD_REQUEST, loc, message, hint=hint)


def _check_placeholders(
    reading: Reading[ToolsetManifest], http: HttpRequest, schema: JsonObject | None
) -> Iterator[Problem]:
    """Find placeholders of other systems and misspelt expressions: the request would contain them as they are written."""
    properties = (schema or {}).get("properties", {})
    declared = set(properties) if isinstance(properties, dict) else set()
    for match in _NEARLY_IN_URL.finditer(http.url):
        message = f"{match[0]!r} is sent as it is written: a URL has arguments in braces"
        hint = f"write {{{match['name']}}}"
        yield reading.problem(codes.SENT_AS_WRITTEN, ("url",), message, hint=hint)
    # `/:name` or `$name` may be meant as it is written, but hardly with the name of an argument.
    for match in _NAMED_IN_URL.finditer(http.url):
        name = match[match.lastindex or 0]
        if name in declared:
            message = f"{match[0]!r} is sent as it is written: a URL has arguments in braces"
            hint = f"write {{{name}}}"
            yield reading.warning(codes.SENT_AS_WRITTEN, ("url",), message, hint=hint)
    for loc, text in texts(_templates(http)):
        # A GraphQL query has $variables and {fields} of its own, which may have the names of arguments.
        for match in () if _GRAPHQL.match(text) else _NAMED.finditer(text):
            name = match[match.lastindex or 0]
            if name in declared:
                message = f"{match[0]!r} is sent as it is written"
                hint = f"write $args.{name}"
                yield reading.warning(codes.SENT_AS_WRITTEN, loc, message, hint=hint)
        for match in _NEARLY.finditer(text):
            message = f"{match[0]!r} is sent as it is written: it is not an expression"
            hint = f"write $args.{match['name']}, or ${match[0]} for this text"
            yield reading.problem(codes.SENT_AS_WRITTEN, loc, message, hint=hint)
        for match in _BRACES.finditer(text):
            # An API may itself have a syntax with braces; an argument in them is hardly its own.
            if match["root"] or match["name"] in declared:
                message = f"{match[0]!r} is sent as it is written"
                hint = f"write $args.{match['name']}"
                yield reading.warning(codes.SENT_AS_WRITTEN, loc, message, hint=hint)


def _check_places(
    reading: Reading[ToolsetManifest], http: HttpRequest, placed: Placement
) -> Iterator[Problem]:
    if isinstance(http.body, HttpBody) and http.body.graphql and http.method != "POST":
        message = f"a GraphQL operation is not sent with {http.method}"
        yield reading.problem(codes.BAD_REQUEST, ("body",), message, hint="write method: POST")
    for name, parameter in http.parameters.items():
        loc: Loc = ("parameters", name)
        if parameter.location == "path" and name not in placed.needed:
            wire = parameter.name or name
            message = f"the URL has no {{{wire}}}"
            hint = f"add {{{wire}}} to the path of url"
            yield reading.problem(codes.BAD_REQUEST, (*loc, "in"), message, hint=hint)
        if parameter.file and (parameter.location != "body" or http.body != "multipart"):
            message = "a file requires a multipart body"
            hint = "write in: body for the parameter, and body: multipart for the request"
            yield reading.problem(codes.BAD_REQUEST, (*loc, "file"), message, hint=hint)
        places = _PLACES_OF_STYLES.get(parameter.style or "", ())
        if places and parameter.location not in places:
            message = f"the style {parameter.style!r} is for {' and '.join(places)} only"
            hint = "remove it, or write comma or json"
            yield reading.problem(codes.BAD_REQUEST, (*loc, "style"), message, hint=hint)
        if parameter.allow_reserved and parameter.location not in {"query", "body"}:
            message = "only a query and a form can have reserved characters unencoded"
            hint = "remove it; in a path, {+name} in url keeps each /"
            yield reading.problem(codes.BAD_REQUEST, (*loc, "allow_reserved"), message, hint=hint)


def _check_arguments(
    reading: Reading[ToolsetManifest], http: HttpRequest, placed: Placement, schema: JsonObject
) -> Iterator[Problem]:
    """Find arguments that the request names and the schema does not."""
    properties: Any = schema.get("properties", {})
    open_ended = not properties and schema.get("additionalProperties") is not False
    if schema.keys() & COMPOSING or open_ended or not isinstance(properties, dict):
        return  # the declared arguments depend on the value
    required = schema.get("required", [])
    places = _places(http)
    for name in _argument_names(http, placed):
        if name not in properties:
            near = nearest_name(name, properties)
            hint = f"did you mean {near!r}?" if near else f"add {name} to input_schema.properties"
            at, message = places.get(name, ("url",)), f"there is no argument {name!r}"
            yield reading.problem(codes.UNKNOWN_ARGUMENT, at, message, hint=hint)
        elif name in placed.needed and isinstance(required, list) and name not in required:
            message = f"the URL requires {name!r}, but the schema does not"
            hint = f"add {name} to input_schema.required"
            yield reading.warning(codes.UNKNOWN_ARGUMENT, ("url",), message, hint=hint)


def _places(http: HttpRequest) -> dict[str, Loc]:
    """Return where a request names each argument outside of its URL."""
    places: dict[str, Loc] = dict.fromkeys(graphql_variables(http), ("body", "graphql", "query"))
    places |= {name: ("parameters", name) for name in http.parameters}
    for loc, text in texts(_templates(http)):
        for expression in expressions(text):
            if expression.root == "args" and expression.path:
                places.setdefault(expression.path[0], loc)
    return places
