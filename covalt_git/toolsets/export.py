"""Export of a toolset as a bundle, which is refused if the toolset has errors or contains a secret.

The bundle does not contain the project's state file of the toolset (``toolsets/state``).
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from covalt_git.bundles.archive import MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, pack_files
from covalt_git.credentials.leaks import credentials
from covalt_git.credentials.values import Mask
from covalt_git.errors import CovaltError, Problem
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.paths import check_path, collisions
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from covalt_git.manifests.toolset_files import BundleFile
    from covalt_git.toolsets.toolset import Toolset

_PLAIN_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,40}")
SHORTEST = 6
"""Shorter values of secrets are not searched: words such as ``true`` are in many files."""


class NotExportedError(CovaltError):
    """A toolset cannot be exported; ``problems`` has the reasons."""

    code = "not_exported"
    http_status = 409


def bundle_name(toolset: Toolset) -> str:
    """Return the file name of a bundle: the toolset's id, and its version if a file name can have it."""
    version = toolset.manifest.version if toolset.manifest else ""
    return (
        f"{toolset.id}-{version}.zip" if _PLAIN_VERSION.fullmatch(version) else f"{toolset.id}.zip"
    )


def pack_bundle(
    root: Path, toolset: Toolset, secrets: Mapping[str, str], *, allow_guesses: bool = False
) -> bytes:
    """Return the bundle of a toolset.

    No file may contain a value of ``secrets`` (values by name) or a credential.  ``allow_guesses``
    accepts text that only looks like a credential.

    Raises:
        NotExportedError: with all errors and all places of secrets.
    """
    if toolset.id == REGISTRY_NAMESPACE:
        raise NotExportedError(
            "registered tools are not a toolset of files, so they have no bundle",
            hint="covalt-git registry list --json",
        )
    display_path = toolset.folder.relative_to(root).as_posix()
    problems = [
        one
        for one in toolset.own_problems
        if one.severity == "error" or one.code == codes.CREDENTIAL
    ]
    if allow_guesses:
        problems = [one for one in problems if one.severity == "error"]
    problems += _size_problems(toolset, display_path) or _name_problems(toolset, display_path)
    contents: dict[str, bytes] = {}
    if not any(one.code == codes.TOO_LARGE for one in problems):
        reported = {(one.path, one.line) for one in problems if one.code == codes.CREDENTIAL}
        for file in toolset.files.files:
            content = contents[file.path] = _content(
                toolset.folder, file, f"{display_path}/{file.path}"
            )
            problems += [
                one
                for one in _secrets_in(content, secrets, f"{display_path}/{file.path}")
                if (one.path, one.line) not in reported
            ]
    if problems:
        problems.sort(key=lambda one: (one.path, one.line, one.col))
        raise NotExportedError(
            f"the toolset {toolset.id!r} cannot be exported",
            hint=_hint(toolset, problems),
            problems=problems,
        )
    return pack_files(
        (file.path, contents[file.path], file.executable) for file in toolset.files.files
    )


def _hint(toolset: Toolset, problems: list[Problem]) -> str:
    """Return the command that replaces the credentials, if the manifest has some."""
    in_manifest = any(
        one.code == codes.CREDENTIAL and one.path.endswith(f"{toolset.id}/{MANIFEST}")
        for one in problems
    )
    return f"covalt-git bundle export {toolset.id} --placeholders" if in_manifest else ""


def _content(folder: Path, file: BundleFile, display_path: str) -> bytes:
    try:
        content = (folder / file.path).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise NotExportedError(f"{display_path} cannot be read: {reason}") from None
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise NotExportedError(f"{display_path} changed during the export", hint="try again")
    return content


def _size_problems(toolset: Toolset, display_path: str) -> list[Problem]:
    files = toolset.files.files
    hint = "store large data in the workspace of a chat"
    problems = [
        Problem(f"{display_path}/{file.path}", 0, 0, codes.TOO_LARGE, _most(MAX_FILE_BYTES), hint)
        for file in files
        if file.size > MAX_FILE_BYTES
    ]
    if len(files) > MAX_FILES:
        message = f"a bundle can have at most {MAX_FILES} files (got {len(files)})"
        problems.append(Problem(display_path, 0, 0, codes.TOO_LARGE, message, hint))
    elif sum(file.size for file in files) > MAX_BYTES:
        message = f"the files of a bundle can have at most {MAX_BYTES >> 20} MiB in total"
        problems.append(Problem(display_path, 0, 0, codes.TOO_LARGE, message, hint))
    return problems


def _most(size: int) -> str:
    return f"a file of a bundle can have at most {size >> 20} MiB"


def _name_problems(toolset: Toolset, display_path: str) -> list[Problem]:
    """Return problems for file names that some operating systems cannot store."""
    paths = [file.path for file in toolset.files.files]
    hint = "rename it, so that every operating system can open the bundle"
    problems = [
        Problem(f"{display_path}/{path}", 0, 0, codes.FORBIDDEN_FILE, verdict.reason, hint)
        for path in paths
        if (verdict := check_path(path)).kind == "unportable"
    ]
    for first, second in collisions(paths):
        message = f"some operating systems cannot distinguish it from {first!r}"
        problems.append(
            Problem(f"{display_path}/{second}", 0, 0, codes.FORBIDDEN_FILE, message, hint)
        )
    return problems


def _secrets_in(content: bytes, secrets: Mapping[str, str], display_path: str) -> Iterator[Problem]:
    """Find secrets, also in binary files, which ``validate`` does not check."""
    for name, value in sorted(secrets.items()):
        place = Mask([value]).place(content) if len(value) >= SHORTEST else None
        if place is not None:
            message = f"the file contains the value of {name}, which is set on this machine"
            yield _problem(content, place, display_path, message)
    text = content.decode("latin-1")  # one character a byte, so that positions are equal
    for one in credentials(text):
        if one.certain:
            yield _problem(
                content, one.place, display_path, f"{one.kind} in plain text: {one.shown!r}"
            )


def _problem(content: bytes, place: int, display_path: str, message: str) -> Problem:
    begins = content.rfind(b"\n", 0, place) + 1
    line, col = content.count(b"\n", 0, place) + 1, place - begins + 1
    with_text = b"\0" not in content
    hint = "write ${NAME} or use get_context().secrets, and revoke this value"
    at = (line, col) if with_text else (0, 0)
    return Problem(display_path, *at, codes.CREDENTIAL, message, hint)
