"""Bodies of requests: a JSON object and a form become arguments, any other body is one argument."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.compilers.openapi.arguments import with_an_item
from covalt_git.compilers.openapi.parameters import style_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.compilers.openapi.arguments import OperationArguments
    from covalt_git.compilers.openapi.documents import DocumentPart, Documents
    from covalt_git.compilers.openapi.parameters import ApiParameter
    from covalt_git.compilers.openapi.schemas import ObjectParts, Schemas
    from covalt_git.json_values import JsonObject

FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
JSON = "application/json"

_MEDIA_TYPE = re.compile(r"[a-z0-9!#&^_.+-]+/[a-z0-9!#&^_.+-]+(?:; *[a-z0-9_-]+=[a-z0-9_.\"-]+)*")
_JSON_TYPE = re.compile(r"[a-z0-9!#&^_.-]+/(?:[a-z0-9!#&^_.+-]+\+)?json")
_TEXT_TYPE = re.compile(
    r"text/[a-z0-9.+*-]+|[a-z]+/(?:.+\+)?xml|application/(?:.*json.*|.*yaml.*|graphql|javascript|jwt|sql)"
)
_XML_TYPE = re.compile(r"[a-z]+/(?:.+\+)?xml")
# The body of such a request has no defined meaning (RFC 9110, 9.3), so that arguments go into the query.
_IN_QUERY = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
_FILE = "Path of a workspace file, which is sent."


class Body(NamedTuple):
    """The body of a request: its part of the request, and whether its schema is one of XML."""

    request: JsonObject
    is_xml: bool = False


def add_body(
    node: DocumentPart,
    method: str,
    arguments: OperationArguments,
    schemas: Schemas,
    documents: Documents,
) -> Body:
    """Add the arguments of a request body of version 3."""
    body = documents.follow(node)
    contents = dict(body.at("content").all_entries())
    if not contents:
        return Body({})
    media = preferred(contents)
    content = documents.follow(contents[media])
    schema = content.at("schema")
    is_required = body.flag("required")
    described = body.text("description")
    return _of_media(
        _Media(media, schema, content.at("encoding"), described, is_required),
        method,
        arguments,
        schemas,
    )


def add_swagger_body(
    parameters: Iterable[ApiParameter],
    consumes: list[str],
    method: str,
    arguments: OperationArguments,
    schemas: Schemas,
) -> Body:
    """Add the arguments of the body of version 2.0: a parameter in the body, or the fields of a form."""
    fields = [parameter for parameter in parameters if parameter.place == "formData"]
    whole = next((parameter for parameter in parameters if parameter.place == "body"), None)
    if whole is not None:
        media = preferred(dict.fromkeys(consumes or [JSON]))
        node = whole.node
        return _of_media(
            _Media(
                media,
                node.at("schema"),
                node.at("encoding"),
                node.text("description"),
                node.flag("required"),
            ),
            method,
            arguments,
            schemas,
        )
    if not fields:
        return Body({})
    has_file = any(field.node.text("type") == "file" for field in fields)
    media = MULTIPART if has_file or FORM not in (consumes or [FORM]) else FORM
    for field in fields:
        name = arguments.free_name(field.name, "body")
        entry: JsonObject = {"in": "body"} | ({"name": field.name} if name != field.name else {})
        schema = schemas.convert(field.node, "request")
        if field.node.text("type") == "file":
            schema, entry = _file_schema(schema), entry | {"file": True}
        elif field.node.text("type") == "array" and field.node.text("collectionFormat") != "multi":
            formats = {"ssv": "space", "tsv": "tab", "pipes": "pipe"}
            entry["style"] = formats.get(field.node.text("collectionFormat"), "comma")
        is_required = field.node.flag("required")
        schema = with_an_item(schema) if is_required else schema
        arguments.add(name, schema, entry, is_required=is_required, part=field.node)
    kind = "form" if media == FORM else "multipart"
    return Body({"body": kind})


def preferred(contents: Iterable[str]) -> str:
    """Return the media type to send: JSON, then a form, then multipart, then the first."""
    types = list(contents)
    for kind in (JSON, _JSON_TYPE, FORM, MULTIPART):
        for media in types:
            plain = _plain(media)
            if plain == kind if isinstance(kind, str) else kind.fullmatch(plain):
                return media
    return types[0]


def is_json(media: str) -> bool:
    """Return whether values of a media type are JSON."""
    return _JSON_TYPE.fullmatch(_plain(media)) is not None or _plain(media) in {
        "*/*",
        "application/*",
    }


class _Media(NamedTuple):
    media: str
    schema: DocumentPart
    encoding: DocumentPart
    description: str
    is_required: bool


def _of_media(body: _Media, method: str, arguments: OperationArguments, schemas: Schemas) -> Body:
    plain = _plain(body.media)
    header = _content_type(body.media)
    if is_json(plain):
        return Body(_json_body(body, method, arguments, schemas) | header)
    if plain in {FORM, MULTIPART}:
        return Body(_form_body(body, plain, arguments, schemas))
    # The format `byte` means that the body is a text in Base64, and not the content of a file.
    is_base64 = body.schema.text("format") == "byte" or bool(body.schema.text("contentEncoding"))
    is_text = _TEXT_TYPE.fullmatch(plain) is not None or is_base64
    name = arguments.free_name("body", "content")
    if is_text:
        schema: JsonObject = {"type": "string"}
        if not _XML_TYPE.fullmatch(plain) and schemas.kind(body.schema) == "string":
            schema = schemas.convert(body.schema, "request")
        described = body.description or f"The body of the request, as {plain}."
        arguments.add(name, {"description": described} | schema, None, is_required=body.is_required)
        request: JsonObject = {"body": {"text": f"$args.{name}"}}
    else:
        described = " ".join(filter(None, (body.description, _FILE)))
        arguments.add(
            name, {"type": "string", "description": described}, None, is_required=body.is_required
        )
        request = {"body": {"file": f"$workspace/$args.{name}"}}
    is_xml = _XML_TYPE.fullmatch(plain) is not None and body.schema.value is not None
    return Body(request | header, is_xml)


def _json_body(
    body: _Media, method: str, arguments: OperationArguments, schemas: Schemas
) -> JsonObject:
    parts = schemas.object_parts(body.schema) if body.schema.value is not None else None
    is_open = parts is not None and parts.others is not None
    if parts is None or arguments.has_any(parts.properties) or (is_open and method in _IN_QUERY):
        name = arguments.free_name("body", "content")
        schema = schemas.convert(body.schema, "request") if body.schema.value is not None else {}
        whole = dict(schema) if isinstance(schema, dict) else {}
        if body.description:
            whole.setdefault("description", body.description)
        arguments.add(name, whole, None, is_required=body.is_required, part=body.schema)
        return {"body": {"json": f"$args.{name}"}}
    _add_properties(parts, body, arguments, schemas, needs_place=method in _IN_QUERY)
    return {"body_required": True} if body.is_required else {}


def _form_body(
    body: _Media, plain: str, arguments: OperationArguments, schemas: Schemas
) -> JsonObject:
    kind = "form" if plain == FORM else "multipart"
    request: JsonObject = {"body": kind}
    parts = schemas.object_parts(body.schema) if body.schema.value is not None else None
    if parts is None:
        name = arguments.free_name("body", "content")
        schema = schemas.convert(body.schema, "request") if body.schema.value is not None else {}
        # The keys of the argument are the fields of the form.
        place = {"in": "body", "style": "comma", "explode": True}
        arguments.add(name, schema, place, is_required=body.is_required, part=body.schema)
        return request
    styles = {
        name: _field_place(inner, body.encoding.at(name), kind, schemas)
        for name, inner in parts.properties.items()
    }
    _add_properties(parts, body, arguments, schemas, needs_place=True, places=styles)
    return request | ({"body_required": True} if body.is_required and kind == "form" else {})


def _field_place(
    inner: DocumentPart, encoding: DocumentPart, kind: str, schemas: Schemas
) -> JsonObject:
    """Return the file and style of a field of a form."""
    items = inner.at("items")
    is_file = schemas.is_binary(inner) or (items.value is not None and schemas.is_binary(items))
    if kind == "multipart" and is_file:
        return {"file": True}
    # Before 3.1, the style of a part of a multipart body is ignored.
    if not isinstance(encoding.value, dict) or (kind == "multipart" and schemas.is_legacy):
        return {}
    if encoding.value.keys().isdisjoint({"style", "explode", "allowReserved"}):
        return {"style": "json"} if is_json(encoding.text("contentType") or "text/plain") else {}
    return style_of(encoding, "query", schemas.kind(inner))


def _add_properties(
    parts: ObjectParts,
    body: _Media,
    arguments: OperationArguments,
    schemas: Schemas,
    *,
    needs_place: bool,
    places: dict[str, JsonObject] | None = None,
) -> None:
    """Add the properties of a body's object as arguments."""
    is_optional = not body.is_required and bool(parts.required)
    folded = [name.casefold() for name in (*arguments.properties, *parts.properties)]
    for wire, inner in parts.properties.items():
        name = arguments.free_name(wire, "body")
        schema: Any = schemas.convert(inner, "request")
        whole = dict(schema) if isinstance(schema, dict) else {"not": {}}
        if schema is True:
            whole = {}
        entry: JsonObject = {"in": "body"} | ({"name": wire} if name != wire else {})
        style = (places or {}).get(wire, {})
        if style.get("file"):
            whole = _file_schema(whole)
        if is_optional:
            # The whole body can be missing: a default would be sent without the keys that it requires.
            whole.pop("default", None)
            arguments.dependent[name] = [other for other in parts.required if other != wire]
        if wire in parts.required and places is not None and style.get("style") != "json":
            whole = with_an_item(whole)
        # The host could take this argument for another one, unless its place is stated.
        is_plain = folded.count(wire.casefold()) == 1 and not re.search(r"[.\[]", wire)
        has_place = needs_place or bool(style) or name != wire or not is_plain
        arguments.add(
            name,
            whole,
            entry | style if has_place else None,
            is_required=body.is_required and wire in parts.required,
            part=inner,
        )
    arguments.dependent = {name: others for name, others in arguments.dependent.items() if others}
    if parts.others is not None:
        arguments.others = schemas.convert(parts.others, "request")


def _file_schema(schema: Any) -> JsonObject:
    """Return the schema of paths of files, for a schema of the content of files."""
    described = schema.get("description", "") if isinstance(schema, dict) else ""
    path: JsonObject = {"type": "string"}
    if isinstance(schema, dict) and "array" in (schema.get("type"), *(schema.get("type") or ())):
        path = {"type": "array", "items": path}
        path |= {key: schema[key] for key in ("minItems", "maxItems") if key in schema}
    return path | {"description": " ".join(filter(None, (described, _FILE)))}


def _content_type(media: str) -> JsonObject:
    plain = _plain(media)
    if (
        "*" in plain
        or plain in {JSON, "application/octet-stream"}
        or not _MEDIA_TYPE.fullmatch(media.lower())
    ):
        return {} if plain != "application/octet-stream" else {"headers": {"Content-Type": plain}}
    return {"headers": {"Content-Type": media}}


def _plain(media: str) -> str:
    return media.partition(";")[0].strip().lower()
