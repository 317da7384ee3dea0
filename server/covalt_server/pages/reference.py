"""The pages of the HTTP API: all operations, and the fields of one."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from flask import Blueprint, render_template

from covalt_git.errors import UnknownNameError
from covalt_server.api import reference
from covalt_server.api.every_operation import api_document

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject
    from covalt_server.api.reference import OperationText

pages = Blueprint("reference", __name__)


@pages.get("/reference")
def operation_list() -> str:
    """List the operations by their subjects."""
    areas: dict[str, list[OperationText]] = {}
    for operation in _operations().values():
        areas.setdefault(operation.area, []).append(operation)
    return render_template("reference.html", areas=areas)


@pages.get("/reference/<name>")
def operation(name: str) -> str:
    """Show an operation with the objects of its fields."""
    text = _operations().get(name)
    if text is None:
        raise UnknownNameError("operation", name, _operations(), list_with="/reference")
    objects = reference.objects(_document(), reference.parts_of(text))
    return render_template("reference_operation.html", operation=text, objects=objects)


@cache
def _document() -> JsonObject:
    # The pages show no URL of the server.
    return api_document("")


@cache
def _operations() -> dict[str, OperationText]:
    return {text.slug: text for text in reference.operations(_document())}
