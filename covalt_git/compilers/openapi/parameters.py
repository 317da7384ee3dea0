"""Parameters of an operation, as arguments with their places and styles in the request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.compilers.openapi.arguments import with_an_item
from covalt_git.compilers.openapi.servers import literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from covalt_git.compilers.openapi.arguments import OperationArguments
    from covalt_git.compilers.openapi.documents import DocumentPart, Documents
    from covalt_git.compilers.openapi.schemas import Schemas
    from covalt_git.json_values import JsonObject

_PLACES = ("path", "query", "header", "cookie")
_IN_TEMPLATE = re.compile(r"\{([^{}]*)\}")
_SAFE_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SCALARS = frozenset({"string", "number", "integer", "boolean"})

# OpenAPI 3.0.4, "Parameter Object": definitions of the first three are ignored.
_IGNORED_HEADERS: Final = frozenset({"accept", "content-type", "authorization"})
_OWN_HEADERS: Final = frozenset(
    {
        *("host", "content-length", "transfer-encoding", "connection", "accept-encoding"),
        *("te", "trailer", "upgrade", "expect", "keep-alive", "proxy-authorization", "cookie"),
    }
)
_COLLECTIONS: dict[str, JsonObject] = {
    "csv": {"style": "comma"},
    "ssv": {"style": "space"},
    "tsv": {"style": "tab"},
    "pipes": {"style": "pipe"},
    "multi": {"style": "repeat"},
}
_STYLES = {
    "form": "comma",
    "simple": "comma",
    "spaceDelimited": "space",
    "pipeDelimited": "pipe",
    "label": "label",
    "matrix": "matrix",
    "deepObject": "deep",
    "cookie": "comma",
}


class ApiParameter(NamedTuple):
    """A parameter of an operation or its path, after following its references."""

    place: str
    name: str
    node: DocumentPart


class BadOperationError(Exception):
    """The reason why an operation is no tool."""


def merged_parameters(documents: Documents, *lists: DocumentPart) -> list[ApiParameter]:
    """Return parameters of a path and an operation; one of a later list replaces one of an earlier list."""
    parameters: dict[tuple[str, str], ApiParameter] = {}
    for nodes in lists:
        for element in nodes.elements():
            node = documents.follow(element)
            place, name = node.text("in"), node.text("name")
            if not isinstance(node.value, dict) or not place or (not name and place != "body"):
                if node.value is not None:
                    documents.faults.add(element, "this is not a parameter")
                continue
            parameters[place, name] = ApiParameter(place, name, node)
    return list(parameters.values())


def add_parameters(
    parameters: Iterable[ApiParameter],
    arguments: OperationArguments,
    schemas: Schemas,
    documents: Documents,
    credentials: frozenset[tuple[str, str]],
) -> list[tuple[ApiParameter, str]]:
    """Add parameters outside of the body; return those that are left out, each with the reason.

    ``credentials`` are the places and names that the security schemes fill.
    """
    left_out: list[tuple[ApiParameter, str]] = []
    for parameter in parameters:
        place, name, node = parameter
        if place in {"body", "formData"}:
            continue
        if place == "querystring":
            _add_query_string(parameter, arguments, schemas)
            continue
        if place not in _PLACES:
            documents.faults.add(node.at("in"), f"{place[:40]!r} is not a place of a parameter")
            continue
        folded = name.lower() if place == "header" else name
        if (place, folded) in credentials or (place == "header" and folded in _IGNORED_HEADERS):
            continue
        if place in {"header", "cookie"} and not _TOKEN.fullmatch(name):
            left_out.append((parameter, "its name is not that of a header or cookie"))
            continue
        if place == "header" and folded in _OWN_HEADERS:
            left_out.append((parameter, "covalt-git sets this header itself"))
            continue
        _add(parameter, arguments, schemas)
    return left_out


def url_path(
    path: str, arguments: OperationArguments, documents: Documents, node: DocumentPart
) -> str:
    """Return the path of an operation as a URL template, and add the arguments that it does not declare."""
    path = path.partition("#")[0]
    placeholders = {
        place.get("name", name): name
        for name, place in arguments.places.items()
        if place["in"] == "path"
    }
    pieces, position = list[str](), 0
    in_template = set[str]()
    for match in _IN_TEMPLATE.finditer(path):
        pieces.append(literal(path[position : match.start()]))
        position = match.end()
        wire = match[1]
        in_template.add(wire)
        if wire not in placeholders:
            documents.faults.add(node, f"the parameter {wire[:80]!r} of the path is not described")
            name = arguments.free_name(wire, "path")
            place = {"in": "path"} | ({"name": wire} if wire != name else {})
            arguments.add(name, {"type": "string"}, place, is_required=True)
            placeholders[wire] = name
        pieces.append(f"{{{_placeholder(arguments, wire, placeholders)}}}")
    pieces.append(literal(path[position:]))
    for wire, name in placeholders.items():
        if wire not in in_template:
            documents.faults.add(node, f"the path has no {{{wire[:80]}}}")
            del arguments.places[name]
            del arguments.properties[name]
            arguments.required.remove(name)
    return "".join(pieces)


def _placeholder(arguments: OperationArguments, wire: str, names: Mapping[str, str]) -> str:
    """Return the name of a parameter in a URL template, where fewer characters are allowed."""
    if _SAFE_NAME.fullmatch(wire):
        return wire
    name = names[wire]
    if arguments.places[name].get("style") == "matrix":
        raise BadOperationError(f"the name {wire!r} of a parameter cannot be in a path")
    others = {place.get("name", other) for other, place in arguments.places.items()}
    safe = "_".join(re.findall(r"\w+", wire, re.ASCII)) or "value"
    safe = safe if not safe[0].isdigit() else f"_{safe}"
    while safe in others:
        safe += "_"
    arguments.places[name]["name"] = safe
    return safe


def _add(parameter: ApiParameter, arguments: OperationArguments, schemas: Schemas) -> None:
    place, name, node = parameter
    argument = arguments.free_name(name, place)
    entry: JsonObject = {"in": place}
    if argument != name:
        entry["name"] = name
    content = next((inner for _, inner in node.at("content").entries()), None)
    if "schema" in node.value:
        described = node.at("schema")
        entry |= style_of(node, place, schemas.kind(described))
    elif content is not None:
        described = content.at("schema")
        entry["style"] = "json"
    else:
        described = node
        entry |= _collection(node)
    schema = schemas.convert(described, "request") if described.value is not None else {}
    whole = with_texts_of(node, schema)
    is_required = place == "path" or node.flag("required")
    if is_required and entry.get("style") != "json":
        whole = with_an_item(whole)
    arguments.add(argument, whole, entry, is_required=is_required, part=node)


def _add_query_string(
    parameter: ApiParameter, arguments: OperationArguments, schemas: Schemas
) -> None:
    node = parameter.node
    media = next(iter(node.at("content").entries()), None)
    if media is None or media[0] != "application/x-www-form-urlencoded":
        raise BadOperationError("its whole query is a value of another type than a form")
    argument = arguments.free_name(parameter.name or "query", "query")
    schema = schemas.convert(media[1].at("schema"), "request")
    place = {"in": "query", "style": "comma", "explode": True}
    arguments.add(argument, schema, place, is_required=node.flag("required"), part=node)


def with_texts_of(node: DocumentPart, schema: object) -> JsonObject:
    """Return the schema of a parameter with the texts that are beside it."""
    whole = dict(schema) if isinstance(schema, dict) else {}
    if node.text("description"):
        whole["description"] = node.text("description")
    if node.flag("deprecated"):
        whole["deprecated"] = True
    return whole


def style_of(node: DocumentPart, place: str, kind: str) -> JsonObject:
    """Return the style of a parameter or of an encoding, as ``parameters`` of a request has it."""
    default = "simple" if place in {"path", "header"} else "form"
    stated = node.text("style") or default
    style = _STYLES.get(stated, "comma")
    explode = node.value.get("explode")
    if not isinstance(explode, bool):
        explode = stated in {"form", "cookie"}
    entry: JsonObject = {}
    if style in {"space", "pipe"} and explode:
        style = "comma"  # OpenAPI 3.0.4: then both are the same as form
    if style in {"label", "matrix"}:
        entry["style"] = style
        entry |= {"explode": True} if explode and kind not in _SCALARS else {}
    elif style == "deep":
        entry["style"] = style
    elif kind not in _SCALARS:
        # By default, a list is repeated in a query and has commas elsewhere.
        is_default = kind == "array" and style == "comma" and explode == (place == "query")
        if not is_default:
            entry |= {"style": style} | ({"explode": True} if explode else {})
    if node.flag("allowReserved") and place in {"query", "body"}:
        entry["allow_reserved"] = True
    return entry


def _collection(node: DocumentPart) -> JsonObject:
    """Return the style of a list in a document of version 2.0."""
    if node.text("type") != "array":
        return {}
    return _COLLECTIONS.get(node.text("collectionFormat"), _COLLECTIONS["csv"])
