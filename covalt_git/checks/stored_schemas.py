"""Checks of ``toolset.schemas.yaml`` against the manifest and the source texts.

A schema that was made from other source texts is not used: the function that runs now may take other arguments, and
approval rules must not rely on it.  The schema that is read from the source says what it leaves open.

:mod:`covalt_git.checks.toolset_checks` checks the schemas themselves, as those of the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.manifests.toolset_files import digest_of
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from covalt_git.errors import Problem
    from covalt_git.manifests.reading import Reading
    from covalt_git.manifests.toolset_files import BundleFiles
    from covalt_git.models.stored_schemas import StoredSchema, StoredSchemas
    from covalt_git.models.toolset_manifest import ToolsetManifest
    from covalt_git.python_reader.source import ToolDefinition


def sources_digest(source: ToolDefinition, files: BundleFiles) -> str:
    """Return the digest of the modules that have a tool's function and the types of its signature.

    If the reader does not know which those are, these are all modules of the toolset.
    """
    paths = {files.module_path(name) for name in (*source.modules, source.module)}
    # If the reader names no modules, each module of the toolset may define a type of the signature.
    used = paths if source.modules else files.modules.keys()
    return digest_of((path, files.hashes[path], False) for path in used if path is not None)


def current_schema(
    stored: Reading[StoredSchemas], name: str, source: ToolDefinition | None, files: BundleFiles
) -> StoredSchema | None:
    """Return the stored schemas of a tool if they were made from the current source texts."""
    entry = stored.value.tools.get(name) if stored.value else None
    if entry is None or source is None or entry.sources_digest != sources_digest(source, files):
        return None
    return entry


def check_stored_schemas(
    manifest: Reading[ToolsetManifest],
    stored: Reading[StoredSchemas],
    files: BundleFiles,
    sources: Mapping[str, ToolDefinition],
) -> Iterator[Problem]:
    """Find stored schemas without a Python tool, and those that were made from other source texts."""
    toolset_id = manifest.valid.id
    tools = {tool.id: tool for tool in manifest.valid.tools}
    entries = stored.value.tools if stored.value else {}
    for name in entries:
        tool, source = tools.get(name), sources.get(name)
        command = f"covalt-git tool describe {toolset_id}:{name} --write"
        if tool is None or tool.entrypoint is None:
            lacks = "does not exist" if tool is None else "is not a Python tool"
            message = f"the tool {name} {lacks}, so its schema has no effect"
            command = f"covalt-git tool describe {toolset_id} --write"
        elif source is not None and current_schema(stored, name, source, files) is None:
            message = f"the schema of {name} was made from other source texts, so it is not used"
        else:
            continue
        yield stored.warning(codes.STALE_SCHEMA, ("tools", name), message, hint=command, key=True)
