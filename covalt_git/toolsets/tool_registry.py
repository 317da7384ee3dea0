"""The tool registry: files of entries, which are checked, added, replaced and removed here."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from covalt_git import timestamps
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values.canonical_json import NotJsonError
from covalt_git.manifests.reading import shown_path
from covalt_git.manifests.state_files import write_state
from covalt_git.manifests.tool_entries import (
    DEFAULT_PROTOCOLS,
    SERVER_KEYS,
    entry_path,
    entry_text,
    tool_name,
)
from covalt_git.manifests.toolset_files import REGISTRY_FOLDER, read_bundle
from covalt_git.models.toolset_state import ToolGrant
from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.problems import codes
from covalt_git.system import atomic_write
from covalt_git.toolsets.overrides import check_no_approval_ends
from covalt_git.toolsets.permissions import withdraw_removed
from covalt_git.toolsets.registered_tools import check_entry, read_entries
from covalt_git.toolsets.state_store import changeable, state_file
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.toolsets.update_lock import toolsets_lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.tool_entries import ToolEntry


class BadEntryError(CovaltError):
    """An invalid entry of a tool; the message lists all errors."""

    code = "invalid_request"
    exit_code = 2


class ToolNotFoundError(UnknownNameError):
    """No tool with the id is registered; ``known`` are the visible ids."""

    def __init__(self, tool_id: str, known: Iterable[str] = ()) -> None:
        super().__init__("registered tool", tool_id, known, list_with="covalt-git registry list")


class RegistryUnavailableError(CovaltError):
    """The files of the registry cannot be written."""

    code = "registry_not_configured"
    http_status = 503


def check_new_entry(body: JsonObject) -> ToolEntry:
    """Return the entry of a tool; without protocols, it accepts calls over MCP.

    Raises:
        BadEntryError: with all errors.
    """
    values = {key: value for key, value in body.items() if key not in SERVER_KEYS}
    values["protocols"] = values.get("protocols") or list(DEFAULT_PROTOCOLS)
    return _as_read(values)[1]


def _as_read(values: JsonObject) -> tuple[str, ToolEntry]:
    """Return the text of an entry's file, and the entry that its readers get from it.

    The path is as in the project, because some rules depend on the name of the file.

    Raises:
        BadEntryError: with all errors that they would find.
    """
    try:
        text = entry_text(values)
        content = text.encode()
    except (NotJsonError, UnicodeEncodeError) as error:
        raise BadEntryError(f"the entry cannot be stored: {error}") from None
    # An entry that its readers refuse would be stored and then be broken, so the new text is read before it is
    # written.
    reading, problems = check_entry(content, f"toolsets/{REGISTRY_FOLDER}/entry.yaml")
    # What only looks like a credential is a warning in a file that its author wrote; this file is written for them.
    errors = [
        problem
        for problem in problems
        if problem.severity == "error" or problem.code == codes.CREDENTIAL
    ]
    if errors or reading.value is None:
        message = "; ".join(problem.message for problem in errors)
        raise BadEntryError(message, hint=errors[0].hint)
    return text, reading.value


def registered_entries(root: Path) -> dict[str, ToolEntry]:
    """Return the valid entries by tool id, sorted."""
    folder = root / "toolsets" / REGISTRY_FOLDER
    path = shown_path(folder, root)
    files, contents = read_bundle(folder, path)
    entries, _ = read_entries(files, contents, path)
    return {entry.tool_id: entry for entry in sorted(entries, key=lambda entry: entry.tool_id)}


def add_entry(root: Path, entry: ToolEntry) -> ToolEntry:
    """Write the entry of a new tool, and return it with the registry's timestamps.

    Raises:
        CovaltError: ``tool_exists``, if the id or the tool's name exists, also with an equal entry.
        RegistryUnavailableError: if the file cannot be written.
    """
    tool_id = entry.tool_id
    with _writing(root):
        # Under the lock: two requests for one name would otherwise both find it available.
        names = {tool_name(entry_id) for entry_id in registered_entries(root)}
        if entry_path(root, tool_id).exists() or entry.tool_name in names:
            raise CovaltError(
                f"the tool {tool_id!r} is already registered",
                hint="replace it: covalt-git registry add --replace FILE",
                code="tool_exists",
                http_status=409,
            )
        return _write(root, entry)


def replace_entry(root: Path, entry: ToolEntry) -> ToolEntry:
    """Replace the entry of a tool, and return it as written.  The grant of another entry ends.

    Raises:
        ToolNotFoundError: if the tool is not registered.
        RegistryUnavailableError: if the file cannot be written.
    """
    tool_id = entry.tool_id
    with _writing(root):
        _check_exists(root, tool_id)
        old = registered_entries(root).get(tool_id)
        return _write(root, entry, old.registered_at if old else None)


def remove_entry(root: Path, tool_id: str) -> None:
    """Remove a tool with its grant and its override.

    Raises:
        ToolNotFoundError: if the tool is not registered.
        ApprovalEndsError: if this project requires approval of its calls.
        RegistryUnavailableError: if the file cannot be removed.
    """
    with _writing(root):
        _check_exists(root, tool_id)
        toolset, name = changeable(root, REGISTRY_NAMESPACE), tool_name(tool_id)
        state = toolset.state
        # Before the file: after a crash, a later entry of the same tool must not be granted.
        grants = {
            key: grant
            for key, grant in state.grants.items()
            if not isinstance(grant, ToolGrant) or grant.tool != name
        }
        overrides = {key: own for key, own in state.overrides.items() if key != name}
        ending = {key: own for key, own in state.overrides.items() if key == name}
        check_no_approval_ends(REGISTRY_NAMESPACE, ending)
        if (grants, overrides) != (state.grants, state.overrides):
            update = {"grants": grants, "overrides": overrides}
            write_state(state_file(root, REGISTRY_NAMESPACE), state.model_copy(update=update))
        path = entry_path(root, tool_id)
        path.unlink()
        atomic_write.fsync(path.parent)
        withdraw_removed(toolset, read_toolset(root, REGISTRY_NAMESPACE))


def _check_exists(root: Path, tool_id: str) -> None:
    if not entry_path(root, tool_id).exists():
        raise ToolNotFoundError(tool_id)


def _write(root: Path, entry: ToolEntry, registered_at: str | None = None) -> ToolEntry:
    timestamp = timestamps.now()
    times = {"registered_at": registered_at or timestamp, "updated_at": timestamp}
    text, written = _as_read(entry.stored() | times)
    atomic_write.replace(entry_path(root, entry.tool_id), text)
    return written


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    try:
        with toolsets_lock(root):
            yield
    except OSError as error:
        raise RegistryUnavailableError(
            f"toolsets/{REGISTRY_FOLDER} cannot be written: {error.strerror}",
            hint="the server needs write access to toolsets/state",
        ) from None
