"""Markdown about the HTTP API: all operations and the objects of their fields, from the OpenAPI document."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from covalt_server.api.every_operation import api_document
from covalt_server.api.reference import (
    FieldText,
    OperationText,
    TypePart,
    objects,
    operations,
    parts_of,
)
from docs.site.markdown import cell, plain, table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def text() -> str:
    """Return the sections of all operations by subject, and of the objects."""
    document = api_document("")
    every = sorted(operations(document), key=lambda one: one.area)
    common = set.intersection(*(set(one.errors) for one in every))
    statuses = ", ".join(error for error in every[0].errors if error in common)
    parts = [f"## Operations\n\nEach operation can answer with these errors: {statuses}."]
    for area, group in groupby(every, key=lambda one: one.area):
        parts.append(f"### {area.capitalize()}")
        for operation in group:
            parts += _operation(operation, common)
    parts.append("## Objects")
    named = [part for one in every for result in one.results for part in result.type]
    named += [part for one in every for part in parts_of(one)]
    for one in objects(document, named):
        parts += [f"### {one.name}", plain(" ".join(one.description.split()))]
        parts.append(_table(one.fields, "result") if one.fields else _type(one.type))
    return "\n\n".join(part for part in parts if part)


def _operation(one: OperationText, common: set[str]) -> Iterator[str]:
    yield f"#### {one.name}"
    yield f"`{one.method} {one.path}`"
    yield plain(one.summary)
    yield from map(plain, one.details)
    if one.parameters:
        yield _table(one.parameters, "parameter")
    for body in one.bodies:
        yield f"Request, `{body.media}`:" if body.fields else f"Request, `{body.media}`"
        yield _table(body.fields, "request field")
    result, *others = one.results or [None]
    if result:
        media = "with the media type of the file" if others else f"`{result.media}`"
        yield f"Result, {media}: {_type(result.type)}"
    own = [error for error in one.errors if error not in common]
    if own:
        yield f"Further errors: {', '.join(own)}."


def _table(fields: Iterable[FieldText], title: str) -> str:
    rows = [
        (
            f"`{field.name}`{', required' if field.required and title != 'result' else ''}",
            _type(field.type) + (f"; default `{cell(field.default)}`" if field.default else ""),
            cell(plain(field.description)),
        )
        for field in fields
    ]
    return table((title.replace("result", "field"), "type", "meaning"), rows) if rows else ""


def _type(parts: Iterable[TypePart]) -> str:
    return "".join(
        f"[{part.text}](#{part.schema.lower()})" if part.schema else cell(part.text)
        for part in parts
    )
