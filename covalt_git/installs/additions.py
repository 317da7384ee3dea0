"""Import of a document whose toolset already exists: the parts that it replaces, its addition to the toolset, another id."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from covalt_git import yaml_text
from covalt_git.errors import CovaltError
from covalt_git.installs.yaml_merge import merge_yaml
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.names import RESERVED_TOOLSET_IDS, is_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.bundles.archive_reader import Entry
    from covalt_git.toolsets.toolset import Toolset

_OF_THE_TOOLSET = ("id", "name", "version", "description", "manifest_version")
"""Keys that an addition does not change: they are about the toolset, not about one of its parts."""

_LONGEST_NAME = 100
"""Characters of a name to which an id is added, so that both are within the limit of names."""

_IDENTITIES = ("id", "tool_id")


class NotAddedError(CovaltError):
    """A document that cannot be added to a toolset, because they differ in a part that both have."""

    code = "not_added"
    http_status = 409


def replaced_parts(installed: Toolset, new: Toolset) -> tuple[str, ...]:
    """Return the servers, tools and files of a toolset that an import would remove or change."""
    ours, theirs = _parts(installed), _parts(new)
    return tuple(name for name, part in ours.items() if theirs.get(name) != part)


def _parts(toolset: Toolset) -> dict[str, object]:
    manifest = toolset.manifest
    parts: dict[str, object] = {}
    if manifest is not None:
        parts |= {f"server {server.id}": server for server in manifest.mcp_servers}
        parts |= {f"tool {tool.id}": tool for tool in manifest.tools}
    hashes = toolset.files.hashes
    return parts | {f"file {path}": digest for path, digest in hashes.items() if path != MANIFEST}


def renamed_entries(entries: Sequence[Entry], toolset_id: str) -> list[Entry]:
    """Return the files of a toolset with another id in its manifest.

    Raises:
        CovaltError: if the id is not valid, or the manifest has none.
    """
    if not is_id(toolset_id) or toolset_id in RESERVED_TOOLSET_IDS:
        raise CovaltError(
            f"{toolset_id!r} is not a name of a toolset",
            hint="use at most 64 lower-case letters, digits and hyphens, such as my-tools",
        )
    return [
        dataclasses.replace(entry, content=_renamed(entry.content, toolset_id))
        if entry.path == MANIFEST
        else entry
        for entry in entries
    ]


def _renamed(manifest: bytes, toolset_id: str) -> bytes:
    document = yaml_text.load(manifest, MANIFEST)
    old = document.data.get("id") if isinstance(document.data, dict) else None
    if isinstance(old, str):
        text, start = document.text, document.offset(("id",))
        start += text[start : start + 1] in {'"', "'"}
        if text.startswith(old, start):
            text = text[:start] + toolset_id + text[start + len(old) :]
            return retitled(text, toolset_id, old).encode()
    raise CovaltError(f"the `id` in {MANIFEST} cannot be replaced", hint="write it in one line")


def retitled(manifest: str, toolset_id: str, old_id: str = "") -> str:
    """Return a manifest whose name has the id of the toolset, so that lists show which of two imports it is."""
    document = yaml_text.load(manifest.encode(), MANIFEST)
    name = document.data.get("name")
    if not isinstance(name, str) or len(name) > _LONGEST_NAME:
        return manifest
    text, start = document.text, document.offset(("name",))
    start += text[start : start + 1] in {'"', "'"}
    end = start + len(name)
    # A name in another form, such as one with an escape, stays as it is.
    if not text.startswith(name, start) or text[end : end + 1] not in {'"', "'", "\n", "\r", ""}:
        return manifest
    title = f"{name.removesuffix(f' ({old_id})')} ({toolset_id})"
    return text[:start] + title + text[end:]


def added_entries(ours: Sequence[Entry], new: Sequence[Entry]) -> list[Entry]:
    """Return the files of a toolset together with those of a document, which may add parts and change none.

    Raises:
        NotAddedError: if both have a part with the same name and another content.
    """
    files = {entry.path: entry for entry in ours}
    for entry in new:
        old = files.get(entry.path)
        if old is None:
            files[entry.path] = entry
        elif entry.path == MANIFEST:
            files[MANIFEST] = dataclasses.replace(old, content=_added(old.content, entry.content))
        elif old.content != entry.content:
            raise _differs(f"the file {entry.path}")
    return [files[path] for path in sorted(files)]


def _added(ours: bytes, new: bytes) -> bytes:
    old, other = (yaml_text.load(content, MANIFEST).data for content in (ours, new))
    result = {key: old.get(key) for key in old}
    for key, value in other.items():
        if key not in _OF_THE_TOOLSET:
            result[key] = _union(old[key], value, key) if key in old else value
    texts = [yaml_text.dump(data, sort_keys=False).encode() for data in (old, result)]
    # The addition is written into the text of the toolset, so that its comments and its layout stay.
    merged = merge_yaml(texts[0], ours, texts[1], ("yours", "added"))
    if merged is None or not merged.clean:
        raise _differs(f"the layout of {MANIFEST}")
    return merged.content


def _union(old: Any, new: Any, place: str) -> Any:
    """Return both values: mappings by key, lists by the ids of their items."""
    if old == new:
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        both = {key: _union(old[key], new[key], f"{place}.{key}") for key in old if key in new}
        return {**old, **new, **both}
    if not isinstance(old, list) or not isinstance(new, list):
        raise _differs(place)
    result = list(old)
    ids = {_identity(item): item for item in old if _identity(item)}
    for item in new:
        name = _identity(item)
        if name in ids and ids[name] != item:
            raise _differs(f"{name} in {place}")
        if item not in result:
            result.append(item)
    return result


def _identity(item: Any) -> str:
    names = (item.get(key) for key in _IDENTITIES) if isinstance(item, dict) else ()
    return next((name for name in names if isinstance(name, str)), "")


def _differs(what: str) -> NotAddedError:
    return NotAddedError(
        f"it cannot be added: {what} is different in the toolset; import it under another name, or replace the toolset",
        hint="with --as NAME, or with --existing replace",
    )
