"""Reader and writer of ``toolset.schemas.yaml``, and the manifest with the schemas of that file.

The manifest has precedence.  Code that uses a manifest need not know which file declares a schema; code that
reports a place asks :func:`schema_file`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from covalt_git import yaml_text
from covalt_git.errors import CovaltError, Problem
from covalt_git.manifests.reading import Reading, read_text
from covalt_git.models.stored_schemas import StoredSchemas
from covalt_git.problems import codes
from covalt_git.system import atomic_write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from covalt_git.manifests.toolset_files import BundleFiles, Contents
    from covalt_git.models.stored_schemas import StoredSchema
    from covalt_git.models.toolset_manifest import ToolDeclaration, ToolsetManifest

SCHEMAS: Final = "toolset.schemas.yaml"
KEYS: Final = ("input_schema", "output_schema")
_HEADER = "Made by `covalt-git tool describe TOOLSET --write`. Do not edit it; check it in."
_NONE = StoredSchemas(version=1)


def read_stored_schemas(
    display_path: str, files: BundleFiles, contents: Contents
) -> Reading[StoredSchemas]:
    """Read the stored schemas of the toolset at ``display_path``; without the file, it has none."""
    path = f"{display_path}/{SCHEMAS}"
    if files.get(SCHEMAS) is None:
        return Reading(path, _NONE, None)
    try:
        # One byte more than the limit, so that the reader reports a file that is too large.
        return _parsed(contents.read(SCHEMAS, yaml_text.MAX_BYTES + 1), path)
    except OSError as error:
        message = f"the file cannot be read: {(error.strerror or str(error)).lower()}"
        return Reading(path, None, None, (Problem(path, 0, 0, codes.UNREADABLE, message),))


@lru_cache(maxsize=32)
def _parsed(content: bytes, path: str) -> Reading[StoredSchemas]:
    """Parse the file; cached, because each call reads its toolset again.

    No tool of a toolset with errors can run, so describing it again needs the file to be deleted first.
    """
    reading = read_text(content, path, StoredSchemas)
    toolset_id = path.split("/")[-2]
    again = f"delete {path}, then: covalt-git tool describe {toolset_id} --write"
    problems = tuple(
        replace(problem, hint=again) if problem.severity == "error" else problem
        for problem in reading.problems
    )
    return replace(reading, problems=problems)


def with_stored_schemas(
    manifest: Reading[ToolsetManifest], entries: Mapping[str, StoredSchema]
) -> Reading[ToolsetManifest]:
    """Return a manifest in which the Python tools also have their stored schemas, by tool."""
    if manifest.value is None or not entries:
        return manifest
    tools = tuple(
        _with_schemas(tool, entries[tool.id])
        if tool.entrypoint is not None and tool.id in entries
        else tool
        for tool in manifest.value.tools
    )
    return replace(manifest, value=manifest.value.model_copy(update={"tools": tools}))


def _with_schemas(tool: ToolDeclaration, entry: StoredSchema) -> ToolDeclaration:
    added = {key: getattr(entry, key) for key in KEYS if getattr(tool, key) is None}
    return tool.model_copy(update=added)


def schema_file(
    manifest: Reading[ToolsetManifest], stored: Reading[StoredSchemas], position: int, key: str
) -> Reading[Any]:
    """Return the file that declares a schema of a manifest's tool, at the place of that schema.

    ``key`` is one of :data:`KEYS`, ``position`` that of the tool in the manifest's list.
    """
    tool = manifest.valid.tools[position]
    entry = stored.value.tools.get(tool.id) if stored.value else None
    schema = getattr(tool, key)
    # By identity: a manifest that declares an equal schema is the place of its errors.
    if entry is not None and schema is not None and schema is getattr(entry, key):
        return stored.below("tools", tool.id, key)
    return manifest.below("tools", position, key)


def undeclared_keys(manifest: Reading[ToolsetManifest], tool_id: str) -> list[str]:
    """Return the :data:`KEYS` that ``toolset.yaml`` itself does not declare for a tool."""
    if manifest.document is None:
        return []
    tools = manifest.document.data["tools"]
    declared = next(tool for tool in tools if tool["id"] == tool_id)
    return [key for key in KEYS if declared.get(key) is None]


def stored_as(
    display_path: str, entries: Mapping[str, StoredSchema]
) -> tuple[str, Reading[StoredSchemas]]:
    """Return the text of the file with these entries in the toolset at ``display_path``, and what is read from it.

    The keys of a schema keep their order, in which forms show the arguments.

    Raises:
        CovaltError: if it would be read as other schemas.
    """
    tools = {name: entries[name].model_dump(exclude_none=True) for name in sorted(entries)}
    text = yaml_text.dump({"version": 1, "tools": tools}, _HEADER, sort_keys=False)
    content = text.encode(errors="replace")
    reading = read_text(content, f"{display_path}/{SCHEMAS}", StoredSchemas)
    if reading.value != StoredSchemas(version=1, tools=dict(entries)):
        raise CovaltError(
            f"{SCHEMAS} cannot represent the schemas",
            hint="declare input_schema of the tool in toolset.yaml",
            code="not_representable",
            http_status=422,
        )
    return text, reading


def write_stored_schemas(folder: Path, entries: Mapping[str, StoredSchema]) -> None:
    """Write the stored schemas of the toolset in ``folder``; without entries, delete the file.

    Raises:
        CovaltError: as :func:`stored_as`; nothing is written then.
    """
    file = folder / SCHEMAS
    if entries:
        atomic_write.replace(file, stored_as(folder.name, entries)[0])
    else:
        file.unlink(missing_ok=True)
