"""Creation of a toolset from a template.

A template is a toolset with the id ``my-toolset`` and the name ``My Toolset``, which are replaced.
"""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path
from typing import Literal, get_args

from covalt_git import yaml_text
from covalt_git.checks.hidden_characters import hidden_characters
from covalt_git.errors import CovaltError
from covalt_git.manifests.toolset_files import STATE_FOLDER
from covalt_git.names import (
    BUILTIN_NAMESPACE,
    MAX_ID,
    RESERVED_TOOLSET_IDS,
    BadNameError,
    check_id,
    id_key,
    is_id,
    suggest_id,
)
from covalt_git.system.node_folder import check_changeable
from covalt_git.toolsets.new_project import SCHEMAS, copy_toolset, write_schemas
from covalt_git.toolsets.project_files import declared_namespaces

Template = Literal["python", "http", "mcp", "html", "plugin", "empty"]
TEMPLATES: tuple[Template, ...] = get_args(Template)

_FOLDER = Path(__file__).with_name("templates")
_ID = "my-toolset"
_NAME = "name: My Toolset\n"
_MOST_NAME = 200


class ToolsetExistsError(CovaltError):
    """A toolset, namespace or file with that id already exists."""

    code = "toolset_exists"
    http_status = 409


def create_toolset(root: Path, toolset_id: str, *, template: Template, name: str = "") -> list[str]:
    """Create ``toolsets/<id>`` of the project at ``root`` atomically; return the paths of its files.

    The default of ``name`` is derived from the id.

    Raises:
        BadNameError: when the id or the name is invalid; its hint has a valid, available id.
        ToolsetExistsError: when the id already exists; its hint has an available id.
        FollowedProjectError: if the toolsets are those of a commit that a node follows.
    """
    check_changeable(root)
    existing = _existing_ids(root)
    _check_available(toolset_id, existing)
    if len(name) > _MOST_NAME:
        raise BadNameError(f"a name of {len(name)} characters is too long", hint="200 at most")
    hidden = next(hidden_characters(name), None)
    if hidden is not None:  # validate would refuse the manifest
        raise BadNameError(f"in the name {hidden.message}", hint="remove it")
    toolsets = root / "toolsets"
    toolsets.mkdir(exist_ok=True)
    target = toolsets / toolset_id
    try:
        created = copy_toolset(
            _FOLDER / template, target, lambda content: _filled(content, toolset_id, name)
        )
    except OSError:
        if target.exists():  # another process created it
            raise _exists_error(toolset_id, existing) from None
        raise
    if not (root / SCHEMAS).is_dir():
        write_schemas(root)
    return [file.relative_to(root).as_posix() for file in created]


def _filled(content: bytes, toolset_id: str, name: str) -> bytes:
    name = name.strip() or toolset_id.replace("-", " ").replace("_", " ").title()
    text = content.decode().replace(_ID, toolset_id)
    return text.replace(_NAME, yaml_text.dump({"name": name})).encode()


def _check_available(toolset_id: str, existing: dict[str, str]) -> None:
    if toolset_id in RESERVED_TOOLSET_IDS:
        built_in = toolset_id == BUILTIN_NAMESPACE
        reason = (
            "the built-in tools have that name" if built_in else "covalt-git writes that folder"
        )
        raise BadNameError(
            f"{toolset_id!r} cannot be a toolset id: {reason}",
            hint=f"try {_available_id(f'my-{toolset_id}', existing)!r}",
        )
    near = suggest_id(toolset_id)
    if near and near != toolset_id and not is_id(toolset_id):
        rule = f"ids are lower-case words joined by - or _, at most {MAX_ID} characters"
        hint = f"try {_available_id(near, existing)!r}; {rule}"
        raise BadNameError(f"{toolset_id!r} cannot be a toolset id", hint=hint)
    check_id(toolset_id, "toolset")
    if id_key(toolset_id) in existing:
        raise _exists_error(toolset_id, existing)


def _exists_error(toolset_id: str, existing: dict[str, str]) -> ToolsetExistsError:
    reason = existing.get(id_key(toolset_id), "another process has just created it")
    hint = f"try {_available_id(toolset_id, existing)!r}"
    return ToolsetExistsError(f"the id {toolset_id!r} already exists: {reason}", hint=hint)


def _existing_ids(root: Path) -> dict[str, str]:
    """Return why each id is not available, by the id's comparison key.

    This includes ids of which only a state file is left, because its grants are not for a new toolset.
    """
    toolsets = root / "toolsets"
    existing = {
        id_key(name): f"toolset {owner!r} declares it as a namespace"
        for name, owner in declared_namespaces(root).items()
    }
    for file in sorted((toolsets / STATE_FOLDER).glob("*.yaml")):
        existing[id_key(file.stem)] = f"there is toolsets/{STATE_FOLDER}/{file.name}"
    for entry in sorted(toolsets.iterdir()) if toolsets.is_dir() else ():
        existing[id_key(entry.name)] = f"there is toolsets/{entry.name}"
    return existing


def _available_id(toolset_id: str, existing: dict[str, str]) -> str:
    """Return ``ID`` if it is available, else the first available of ``ID-2``, ``ID-3``, ..."""
    # Room for a dash and a number, and no id that ends with a separator, which would be invalid.
    short = toolset_id[: MAX_ID - 8].rstrip("-_")
    numbered = (f"{short}-{number}" for number in count(2))
    reserved = RESERVED_TOOLSET_IDS
    return next(
        candidate
        for candidate in chain([toolset_id], numbered)
        if id_key(candidate) not in existing and candidate not in reserved
    )
