"""The format ``toolset.yaml``: one toolset, or a folder or ZIP with one or several."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git import yaml_text
from covalt_git.formats.documents import Document, FormatError, refuse
from covalt_git.formats.mcp_packages.mcpb import bundle_document
from covalt_git.formats.model import Imported, Note, Part, leaves
from covalt_git.formats.shapes import are_objects
from covalt_git.formats.skills import headers
from covalt_git.manifests.reading import read_text
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.models.toolset_manifest import ToolsetManifest
from covalt_git.names import is_id
from covalt_git.problems import codes
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from covalt_git.json_values.pointer import Loc


def folder_document(
    path: str,
    files: Mapping[str, bytes],
    executable: Collection[str] = (),
    *,
    skip_bad: bool = False,
) -> Document:
    """Return the document of the files of a folder or ZIP.

    Its value is the manifest, the manifests by path, or the headers of skills by path.  The document of an MCP bundle
    is that of its manifest.  With ``skip_bad``, wrong skills are left out.

    Raises:
        BadPartsError: if some of several skills are wrong.
        FormatError: if a manifest is not valid YAML, or a skill is not valid.
    """
    result = sorted(item for item in files if item.endswith(f"/{MANIFEST}"))
    result = [MANIFEST] if MANIFEST in files else result
    try:
        manifests = {item: yaml_text.load(files[item], f"{path}/{item}") for item in result}
    except yaml_text.YamlProblems as error:
        raise refuse(path, error.problems) from None
    if MANIFEST in result:
        document = manifests[MANIFEST]
        return Document(path, "folder", document.data, document.text, files, executable)
    bundle = None if manifests else bundle_document(path, files, executable)
    if bundle is not None:
        return bundle
    if manifests:
        values = {item: document.data for item, document in manifests.items()}
        return Document(path, "folder", values, "", files, executable)
    skills = headers(path, files, skip_bad=skip_bad)
    return Document(path, "folder", skills.headers, "", skills.files, executable, skills.left_out)


def recognize(document: Document) -> bool:
    """Return whether a document has this format."""
    value = document.value
    if document.kind == "folder":
        return any(item == MANIFEST or item.endswith(f"/{MANIFEST}") for item in document.files)
    keys = {"tools", "mcp_servers", "sources", "manifest_version"}
    return (
        document.kind == "yaml" and are_objects([value], "id", "name") and bool(keys & value.keys())
    )


def read(document: Document, imported: Imported) -> None:
    """Add the toolsets of a document."""
    if document.kind != "folder" or MANIFEST in document.files:
        _add(document, document.value, (), document.files, imported)
        imported.executable |= {(0, item) for item in document.executable}
        return
    for path in sorted(document.value, key=lambda item: (_order(document.value[item]), item)):
        folder = path.removesuffix(MANIFEST)
        files = {
            name.removeprefix(folder): content
            for name, content in document.files.items()
            if name.startswith(folder)
        }
        _add(document, document.value[path], (path,), files, imported)
        position = len(imported.toolsets) - 1
        below = [item for item in document.executable if item.startswith(folder)]
        imported.executable |= {(position, item.removeprefix(folder)) for item in below}


def _text(manifest: Any) -> bytes:
    return yaml_text.dump(manifest, sort_keys=False).encode()


def _order(manifest: Any) -> int:
    """Return the position of a toolset in the document that it came from."""
    extensions = manifest.get("extensions") if isinstance(manifest, dict) else None
    orders = [
        extension.get("order")
        for extension in (extensions or {}).values()
        if isinstance(extension, dict)
    ]
    return next((order for order in orders if isinstance(order, int)), 0)


def _add(
    document: Document, manifest: Any, loc: Loc, others: Mapping[str, bytes], imported: Imported
) -> None:
    original = others.get(MANIFEST, document.text.encode())  # it has the places of problems
    files = {**others, MANIFEST: _text(manifest) if imported.notes else original}
    result = manifest.get("id") if isinstance(manifest, dict) else None
    # The id of others becomes a folder: `../x` must not lead out of the temporary one.
    toolset_id = result if isinstance(result, str) and is_id(result) else "unnamed"
    # As a project, so that a converted toolset has exactly the tools that the reader of projects gives it.
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        root = Path(name)
        for path, content in files.items():
            file = root / "toolsets" / toolset_id / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        toolset = read_toolset(root, toolset_id)
    errors = [item for item in toolset.problems if item.severity == "error"]
    if errors:
        in_folder = document.kind == "folder"
        previous = f"toolsets/{toolset_id}" if in_folder else f"toolsets/{toolset_id}/{MANIFEST}"
        after = "/".join([document.path, *(str(item).removesuffix(f"/{MANIFEST}") for item in loc)])
        moved = [replace(item, path=item.path.replace(previous, after, 1)) for item in errors]
        raise refuse(document.path, moved)
    uncertain = {codes.UNREAD_TYPE, codes.STALE_SCHEMA}
    imported.doubts += [
        Note(loc, item.message) for item in toolset.problems if item.code in uncertain
    ]
    position = len(imported.toolsets)
    tools = {tool.id.name: tool for tool in toolset.tools if tool.entrypoint}
    for at, item in enumerate(manifest.get("tools", ())):
        if item["id"] in tools:
            tool = tools[item["id"]]
            values = {key: getattr(tool, key) for key in ("name", "description", "input_schema")}
            imported.known[position, "tools", at] = values
    imported.toolsets.append({**manifest})
    imported.places[loc] = [(position,)]
    imported.files.append({path: content for path, content in files.items() if path != MANIFEST})


def prefix(manifest: Mapping[str, Any], *, is_alone: bool) -> str:
    """Return what the paths of a toolset's files begin with in the output."""
    return "" if is_alone else f"{manifest['id']}/"


def write(toolsets: Sequence[Part], imported: Imported) -> dict[str, bytes]:
    """Return the document of toolsets."""
    result: dict[str, bytes] = {}
    for position, part in enumerate(toolsets):
        part.use()
        manifest = imported.toolsets[position]
        if any(
            "http" not in item and "entrypoint" not in item for item in manifest.get("tools", ())
        ):
            message = "the input only has definitions of tools, without requests or functions"
            raise FormatError(message, hint="add the MCP server that has them to a toolset")
        text = _text(manifest)
        # Before it is read back, which takes long for such a file.
        if len(text) > yaml_text.MAX_BYTES or len(leaves(manifest)) > yaml_text.MAX_NODES // 2:
            limit = yaml_text.MAX_BYTES >> 20
            message = (
                f"toolset {manifest['id']!r} would be larger than validate accepts ({limit} MiB)"
            )
            raise FormatError(message, hint="split the input into several documents")
        # A file that validate refuses is not written: YAML cannot represent every text.
        checked = read_text(text, f"{manifest['id']}/{MANIFEST}", ToolsetManifest)
        if checked.problems:
            raise refuse("the output", checked.problems)
        folder = prefix(manifest, is_alone=len(toolsets) == 1)
        result[f"{folder}{MANIFEST}"] = text
        result |= {f"{folder}{path}": content for path, content in imported.files[position].items()}
    return result
