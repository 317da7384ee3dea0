"""Rules for what a workspace stores: names, links, ignore patterns, and git's own dot files.

Scans, uploads, merges, imports and pushes use these functions.  Each returns the reason why a file is not
stored, or an empty text.  ``.gitmodules`` and similar files mean nothing to a chat, but ``git fsck``
reads them, and git refuses to fetch a tree with one that it does not trust.  These rules follow git's
``fsck.c``; ``.gitmodules`` must have the plain form that most people write.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import FILE, FOLDER, LINK
from covalt_git.models.commit_record import WorkspaceNote
from covalt_git.names import matches_text
from covalt_git.paths import (
    MAX_PATH_BYTES,
    check_element,
    collisions,
    is_git_file,
    is_plain,
)
from covalt_git.workspaces.folders import folders_above

if TYPE_CHECKING:
    from collections.abc import Collection

    from covalt_git.models.project_config import WorkspaceConfig

MAX_DEPTH = 100
"""Folders above a file of a workspace."""

_NEVER_LINKS = (".gitmodules", ".gitattributes", ".gitignore", ".mailmap")
_NEVER_FOLDERS = (".gitmodules", ".gitattributes")
_MAX_ATTRIBUTE_LINE = 2048  # git, attr.h: ATTR_MAX_LINE_LENGTH
_MAX_ATTRIBUTES = 100 << 20  # git, attr.h: ATTR_MAX_FILE_SIZE

_ADDRESS = (
    rb"(?:https?|ftps?|ssh|git|file)://(?:[\w.-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*(?::[1-9][0-9]{0,3})?"
    rb"(?:/[\w./~+@-]*)?"
)
_PLAIN_VALUE = rb"(?!\w+:/)[\w./~@][\w./~+@:-]*"
_MODULES_LINE = (
    rb'(?a)(?P<comment>[#;].*)?|(?P<section>\[submodule "[A-Za-z0-9_][\w./+-]*"\])'
    rb"|[A-Za-z][A-Za-z0-9-]*[ \t]*=[ \t]*(?:" + _ADDRESS + rb"|" + _PLAIN_VALUE + rb")"
)


def why_not_stored(path: str, content: bytes, config: WorkspaceConfig) -> str:
    """Return why a scan would not store a file with this path and content; empty if it would."""
    for entry in (*folders_above(path), path):
        name, is_folder = entry.rpartition("/")[2], entry != path
        if reason := why_not_named(entry, name, folder=is_folder):
            return reason
        if is_ignored(config.ignore, entry, folder=is_folder):
            return "workspace.ignore in covalt.yaml leaves it out"
    if len(content) > config.max_file_mb << 20:
        return f"it is larger than {config.max_file_mb} MiB"
    return why_git_refuses(path.rpartition("/")[2], FILE, content)


def check_storable(path: str, content: bytes, config: WorkspaceConfig) -> None:
    """Check that a scan would store a file with this path and content.

    Raises:
        CovaltError: with the reason.
    """
    reason = why_not_stored(path, content, config)
    if reason:
        hint = "raise workspace.max_file_mb in covalt.yaml" if "MiB" in reason else ""
        raise CovaltError(f"{path!r} cannot be stored: {reason}", hint=hint)


def is_ignored(patterns: tuple[str, ...], path: str, *, folder: bool) -> bool:
    """Return whether a pattern matches the name of a path, or the complete path if the pattern has an inner ``/``."""
    for pattern in patterns:
        if pattern.endswith("/") and not folder:
            continue
        plain = pattern.rstrip("/")
        if matches_text(plain, path if "/" in plain else path.rpartition("/")[2]):
            return True
    return False


def why_not_named(path: str, name: str, *, folder: bool) -> str:
    """Return why an entry is not stored because of its name or path, or ``""``.

    The caller has checked its parent folder.
    """
    if not is_plain(name):
        verdict = check_element(name)
        if verdict.kind == "refused":
            return verdict.reason
        if folder and (reason := why_git_refuses(name, FOLDER, b"")):
            return reason
    if len(encoded(path)) > MAX_PATH_BYTES:
        return "its path is too long"
    if folder and path.count("/") >= MAX_DEPTH:
        return f"it is nested in more than {MAX_DEPTH} folders"
    return ""


def encoded(name: str) -> bytes:
    """Return the bytes of a name in the file system and in git."""
    return name.encode("utf-8", "surrogateescape")


def unportable(names: Collection[str]) -> list[tuple[str, str]]:
    """Return the names in one folder that some operating systems cannot store, each with the reason."""
    if len({name.lower() for name in names}) == len(names) and all(map(is_plain, names)):
        return []
    ordered = sorted(names)
    verdicts = [(name, check_element(name)) for name in ordered]
    odd = [(name, verdict.reason) for name, verdict in verdicts if verdict.kind == "unportable"]
    clashes = collisions(ordered)
    return odd + [(second, f"some systems take it for {first!r}") for first, second in clashes]


def path_note(path: str, reason: str) -> WorkspaceNote:
    """Return a note for a record; bytes of the path that are not UTF-8 are escaped."""
    return WorkspaceNote(path=os.fsencode(path).decode("utf-8", "backslashreplace"), reason=reason)


def link_climb(target: bytes) -> int:
    """Return the number of folders that must be above a link, so that it provably stays in the workspace.

    Only leading ``..`` are allowed, at most one for each folder.  The folders above a stored link are real
    folders, so these ``..`` stay in the workspace.  A later ``..`` could come after another link; then, and for an
    absolute or malformed target, no number is enough, and ``sys.maxsize`` is returned.
    """
    try:
        text = target.decode("utf-8")
    except UnicodeDecodeError:
        return sys.maxsize
    elements = [element for element in text.split("/") if element not in {"", "."}]
    steps = [element == ".." for element in elements]
    up = steps.index(False) if False in steps else len(steps)
    is_bad = any(steps[up:]) or not text or "\0" in text or text.startswith("/")
    return sys.maxsize if is_bad else up


def why_git_refuses(name: str, mode: int, content: bytes) -> str:
    """Return why ``git fsck --strict`` would complain about a tree with this entry; empty if it would not."""
    # Git reads these files from a work tree, and a link in their place could name a file outside of it.
    if mode == LINK and any(is_git_file(name, git_file) for git_file in _NEVER_LINKS):
        return "git does not allow a link with that name"
    if mode == FOLDER:
        refused = any(is_git_file(name, git_file) for git_file in _NEVER_FOLDERS)
        return "git does not allow a folder with that name" if refused else ""
    if is_git_file(name, ".gitmodules") and not _is_trusted(content):
        return "git does not accept its content"
    if is_git_file(name, ".gitattributes"):
        if len(content) > _MAX_ATTRIBUTES:
            return "git does not read a .gitattributes of that size"
        if any(len(line) >= _MAX_ATTRIBUTE_LINE for line in content.split(b"\n")):
            return "git does not read a .gitattributes with such long lines"
    return ""


def _is_trusted(content: bytes) -> bool:
    """Return whether a ``.gitmodules`` contains only sections with plain names, paths and URLs."""
    # `..` in a name leads out of `.git/modules`.  `::` names a remote helper, and fsck reads the URL behind
    # it.  Other characters need quotes or escapes, which the patterns below do not read.
    if b".." in content or b"::" in content or re.search(rb"[^\t\n\x20-\x7e]", content):
        return False
    in_section = False
    for line in content.split(b"\n"):
        parts = re.fullmatch(_MODULES_LINE, line.strip(b" \t"))
        if parts is None:
            return False
        in_section = in_section or parts["section"] is not None
        if not in_section and line.strip(b" \t") and parts["comment"] is None:
            return False
    return True
