"""Export of a toolset as a bundle, which is refused if the toolset has errors or contains a secret.

The bundle does not contain the project's state file of the toolset (``toolsets/state``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from covalt_git.bundles.archive import MAX_FILES, pack_files
from covalt_git.bundles.archive_reader import BadBundleError, digest_of_entries, read_folder
from covalt_git.credentials.leaks import credentials
from covalt_git.credentials.values import SHORTEST_SEARCHED, Mask
from covalt_git.errors import CovaltError, Problem, in_order
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from covalt_git.bundles.archive_reader import Entry
    from covalt_git.toolsets.toolset import Toolset

_PLAIN_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,40}")


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
        problem
        for problem in toolset.own_problems
        if problem.severity == "error" or problem.code == codes.CREDENTIAL
    ]
    if allow_guesses:
        problems = [problem for problem in problems if problem.severity == "error"]
    count = len(toolset.files.files)
    if count > MAX_FILES:
        message = f"a bundle can have at most {MAX_FILES} files (got {count})"
        problems.append(Problem(display_path, 0, 0, codes.TOO_LARGE, message))
    entries = _entries(toolset, display_path, problems)
    reported = {
        (problem.path, problem.line) for problem in problems if problem.code == codes.CREDENTIAL
    }
    for entry in entries:
        problems += [
            problem
            for problem in _secrets_in(entry.content, secrets, f"{display_path}/{entry.path}")
            if (problem.path, problem.line) not in reported
        ]
    if problems:
        raise NotExportedError(
            f"the toolset {toolset.id!r} cannot be exported",
            hint=_hint(toolset, problems),
            problems=in_order(problems),
        )
    return pack_files((entry.path, entry.content, entry.executable) for entry in entries)


def _hint(toolset: Toolset, problems: list[Problem]) -> str:
    """Return the command that replaces the credentials, if the manifest has some."""
    in_manifest = any(
        problem.code == codes.CREDENTIAL and problem.path.endswith(f"{toolset.id}/{MANIFEST}")
        for problem in problems
    )
    return f"covalt-git bundle export {toolset.id} --placeholders" if in_manifest else ""


def _entries(toolset: Toolset, display_path: str, problems: list[Problem]) -> list[Entry]:
    """Return the files as they were checked; none, and their problems, if a bundle cannot contain them."""
    try:
        entries = read_folder(toolset.folder, display_path)
    except BadBundleError as error:
        if not error.problems:
            raise
        problems += error.problems
        return []
    # The problems were found in the files of the toolset's reading. Files that an editor changed since were not
    # checked for secrets.
    if digest_of_entries(entries) != toolset.digest:
        raise NotExportedError(f"{display_path} changed during the export", hint="try again")
    return entries


def _secrets_in(content: bytes, secrets: Mapping[str, str], display_path: str) -> Iterator[Problem]:
    """Find secrets, also in binary files, which ``validate`` does not check."""
    for name, value in sorted(secrets.items()):
        place = Mask([value]).place(content) if len(value) >= SHORTEST_SEARCHED else None
        if place is not None:
            message = f"the file contains the value of {name}, which is set on this machine"
            yield _problem(content, place, display_path, message)
    text = content.decode("latin-1")  # one character a byte, so that positions are equal
    for credential in credentials(text):
        if credential.certain:
            yield _problem(
                content,
                credential.place,
                display_path,
                f"{credential.kind} in plain text: {credential.shown!r}",
            )


def _problem(content: bytes, place: int, display_path: str, message: str) -> Problem:
    begins = content.rfind(b"\n", 0, place) + 1
    line, col = content.count(b"\n", 0, place) + 1, place - begins + 1
    with_text = b"\0" not in content
    hint = "write ${NAME} or use get_context().secrets, and revoke this value"
    at = (line, col) if with_text else (0, 0)
    return Problem(display_path, *at, codes.CREDENTIAL, message, hint)
