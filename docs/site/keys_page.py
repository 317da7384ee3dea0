"""Tables of all keys of ``toolset.yaml`` and ``covalt.yaml``, from the JSON Schemas of their models."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from covalt_git.manifests.published_schemas import schema_text
from covalt_server.api.reference import FieldText, TypePart, fields
from docs.site.markdown import anchor, cell, plain, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject

EXAMPLES: Final[dict[str, dict[str, Any]]] = yaml.safe_load(
    Path(__file__).with_name("key_examples.yaml").read_text(encoding="utf-8")
)
_RENDERERS = {
    "CodeConfig": "code",
    "DocumentConfig": "document",
    "EditorConfig": "editor",
    "FrameConfig": "frame",
    "HtmlConfig": "html",
}
"""Models of ``renderer_config``, which no field of the schema refers to: the renderer decides."""


def toolset_text() -> str:
    """Return the tables of ``toolset.yaml``."""
    return _text("toolset")


def covalt_text() -> str:
    """Return the tables of ``covalt.yaml``."""
    return _text("covalt")


def _text(name: str) -> str:
    schema: JsonObject = json.loads(schema_text(name))
    titles = dict(_titles(schema))
    parts = []
    for model, title in titles.items():
        definition = _definition(schema, model)
        if definition.get("properties"):
            level = "##" if model == schema["title"] else "###"
            heading = "All keys" if model == schema["title"] else f"Keys of `{title}`"
            parts += [
                f"{level} {heading}",
                plain(" ".join(definition.get("description", "").split())),
                table(("key", "type and default", "meaning"), _rows(model, definition, titles)),
            ]
    return "\n\n".join(parts)


def _definition(schema: JsonObject, model: str) -> JsonObject:
    definition: JsonObject = schema if model == schema["title"] else schema["$defs"][model]
    return definition


def _titles(schema: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield each model with the place of the first key that has it, from the top of the file down."""
    queue, passed = deque([(schema["title"], "")]), {schema["title"]}
    while queue:
        model, place = queue.popleft()
        yield model, place
        definition = _definition(schema, model)
        for field in fields(definition):
            inner = f"{place}.{field.name}".removeprefix(".")
            plain = "".join(part.text for part in field.type)
            for part in field.type:
                if part.schema and part.schema not in passed:
                    passed.add(part.schema)
                    mark = "[]" if "array of" in plain else ".NAME" if "object of" in plain else ""
                    queue.append((part.schema, inner + mark))
    for model, renderer in _RENDERERS.items():
        if model in schema.get("$defs", {}) and model not in passed:
            yield model, f"renderer_config of {renderer}"


def _rows(model: str, definition: JsonObject, titles: dict[str, str]) -> Iterator[tuple[str, ...]]:
    for field in fields(definition):
        kind = "".join(_type(part, titles) for part in field.type)
        default = f"; default `{cell(field.default)}`" if field.default else ""
        meaning = cell(plain(field.description))
        example = _example(model, field, definition["properties"][field.name])
        if example:
            meaning += f" Example: `{cell(example)}`"
        required = ", required" if field.required else ""
        yield f"`{field.name}`{required}", kind + default, meaning


def _type(part: TypePart, titles: dict[str, str]) -> str:
    if not part.schema:
        return cell(part.text)
    title = titles[part.schema]
    return f"[{title.rpartition('.')[2] or part.schema}](#{anchor(f'Keys of {title}')})"


def _example(model: str, field: FieldText, schema: JsonObject) -> str:
    """Return an example of a key, as a line of YAML; empty if its type is an object with a table of its own.

    Raises:
        KeyError: if ``key_examples.yaml`` lacks it.
    """
    if any(part.schema for part in field.type):
        return ""
    plain = "".join(part.text for part in field.type)
    if "examples" in schema:
        value = schema["examples"][0]
    elif field.name in EXAMPLES.get(model, {}):
        value = EXAMPLES[model][field.name]
    elif plain.startswith("boolean"):
        value = field.default != "true"
    elif plain.startswith('"') or plain == "1":
        choices = [json.loads(choice) for choice in plain.removesuffix(" or null").split(" or ")]
        value = next((choice for choice in choices if json.dumps(choice) != field.default), None)
        value = choices[0] if value is None else value
    else:
        raise KeyError(f"key_examples.yaml: {model}: {field.name}")
    flow = yaml.safe_dump({field.name: value}, default_flow_style=True, width=10_000)
    return flow.strip().removeprefix("{").removesuffix("}")
