"""Copies of toolsets in which ``${NAME}`` replaces each literal credential of ``toolset.yaml``.

Only texts in which references are resolved are changed: of servers, sources, logins and HTTP requests.  A
credential in another place stays, so that the export of the copy is refused with its place.
"""

from __future__ import annotations

import json
import re
import shutil
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalt_git import yaml_text
from covalt_git.credentials.leaks import credentials
from covalt_git.credentials.named_values import announced, named_texts
from covalt_git.credentials.values import SHORTEST_SEARCHED
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.templating.references import references, texts
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from covalt_git.credentials.named_values import NamedText
    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.model_errors import Loc
    from covalt_git.toolsets.toolset import Toolset

_RESOLVED = frozenset({"mcp_servers", "sources", "auth"})
"""Keys of the manifest in whose texts references are resolved."""

_SECRETS = re.compile(r"(?m)^secrets:[ ]*\[[^\]\n]*\]")


@dataclass(frozen=True, slots=True)
class ReplacedCredential:
    """A credential of a copy: the name of the secret that replaces it, and the keys that lead to it: mcp_servers.web.env.KEY."""

    name: str
    path: str


def copy_with_placeholders(
    folder: Path, toolset: Toolset, secrets: Mapping[str, str]
) -> tuple[Toolset, tuple[ReplacedCredential, ...]]:
    """Write a copy of a toolset to the project ``folder``, and return it as it is read there.

    ``secrets`` are values of this machine by name, which are replaced too.  The names become ``secrets`` of
    the manifest.  A manifest that cannot be read as YAML is copied unchanged.
    """
    target = folder / "toolsets" / toolset.id
    for file in toolset.files.files:
        (target / file.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(toolset.folder / file.path, target / file.path)
    manifest = target / MANIFEST
    placeholders: tuple[ReplacedCredential, ...] = ()
    try:
        document = yaml_text.load(manifest.read_bytes(), MANIFEST)
    except yaml_text.YamlProblems:
        return read_toolset(folder, toolset.id), ()
    if isinstance(document.data, dict):
        text, placeholders = _replaced(document.text, document.data, secrets)
        manifest.write_text(text, encoding="utf-8")
    return read_toolset(folder, toolset.id), placeholders


def _replaced(
    text: str, data: JsonObject, secrets: Mapping[str, str]
) -> tuple[str, tuple[ReplacedCredential, ...]]:
    """Return a manifest with placeholders; its comments stay if the text can be edited in place."""
    referenced = {reference.name for _, reference in references(data)}
    names = list(data.get("secrets") or sorted(referenced))
    taken, replaced, plain, quoted = referenced | set(names), [], text, text
    expected = deepcopy(data)
    named: dict[Loc, list[NamedText]] = {}
    for text_with_name in named_texts(data):
        named.setdefault(text_with_name.loc, []).append(text_with_name)
    for loc, old in texts(data):
        new = old
        for value in _credentials(loc, old, named[loc], secrets):
            name = _available(_path(data, loc), taken)
            taken.add(name)
            replaced.append(ReplacedCredential(name, ".".join(_path(data, loc))))
            new = new.replace(value, f"${{{name}}}")
        if new != old:
            plain, quoted = plain.replace(old, new, 1), quoted.replace(old, json.dumps(new), 1)
            _parent(expected, loc)[loc[-1]] = new
    if not replaced:
        return text, ()
    expected["secrets"] = [*names, *(credential.name for credential in replaced)]
    line = f"secrets: [{', '.join(expected['secrets'])}]"
    # An edit in place is used only if it reads as expected: a text can occur earlier in a comment, or need quotes in
    # YAML.
    for edited in (plain, quoted):
        with_names = _SECRETS.sub(line, edited, 1) if "secrets" in data else f"{edited}\n{line}\n"
        if _data(with_names) == expected:
            return with_names, tuple(replaced)
    return yaml_text.dump(expected), tuple(replaced)


def _data(text: str) -> Any:
    try:
        return yaml_text.load(text.encode(), MANIFEST).data
    except yaml_text.YamlProblems:
        return None


def _credentials(
    loc: Loc, text: str, names: Iterable[NamedText], secrets: Mapping[str, str]
) -> Iterator[str]:
    """Yield the credentials of a text in which references are resolved, each once."""
    if loc[-1] == "id" or not (loc[0] in _RESOLVED or loc[::2][:2] == ("tools", "http")):
        return
    values = {credential.value for credential in credentials(text)}
    values |= {credential.value for credential in map(announced, names) if credential is not None}
    values |= {value for value in secrets.values() if len(value) >= SHORTEST_SEARCHED}
    # The longest first: a secret may be a part of another one, and the rest of that one would stay in the text.
    for value in sorted(values, key=len, reverse=True):
        if value in text:
            text = text.replace(value, "")
            yield value


def _parent(data: JsonObject, loc: Loc) -> Any:
    value: Any = data
    for key in loc[:-1]:
        value = value[key]
    return value


def _path(data: JsonObject, loc: Loc) -> list[str]:
    """Return the keys that lead to a text, with the ids of entries in place of their positions."""
    path, value = [], data
    for key in loc:
        value = value[key]  # type: ignore[index]
        item_id = value.get("id") if isinstance(key, int) and isinstance(value, dict) else None
        # A name is shown and exported, so it must not be made of a credential.
        path.append(str(key if item_id is None or credentials(str(item_id)) else item_id))
    return path


def _available(path: list[str], taken: set[str]) -> str:
    """Return the path in capitals as a name, with a number if the name exists."""
    name = re.sub(r"[^A-Z0-9]+", "_", "_".join(path).upper()).strip("_")
    number = 1
    while (numbered := name if number == 1 else f"{name}_{number}") in taken:
        number += 1
    return numbered
