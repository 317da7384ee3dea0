"""Export of a toolset as a bundle: refused while it has errors, or a secret in any of its files.

What this project decided about the toolset, under ``toolsets/state``, is no part of it.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from covalt_git.bundles.archive import MAX_BYTES, MAX_FILE_BYTES, MAX_FILES, pack_files
from covalt_git.credentials.leaks import credentials
from covalt_git.credentials.values import Mask
from covalt_git.errors import CovaltError, Problem
from covalt_git.paths import check_path, collisions
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from covalt_git.manifests.toolset_files import BundleFile
    from covalt_git.toolsets.toolset import Toolset

_PLAIN_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+-]{0,40}")
_SHORTEST = 6
"""Shorter values of the environment are words, such as ``true``, and stand in many a text."""


class NotExportedError(CovaltError):
    """A toolset cannot be put into a bundle as it is."""

    code = "not_exported"
    http_status = 409


def bundle_name(toolset: Toolset) -> str:
    """Return the name of a toolset's bundle: its id and, where a file's name can have it, its version."""
    version = toolset.manifest.version if toolset.manifest else ""
    return (
        f"{toolset.id}-{version}.zip" if _PLAIN_VERSION.fullmatch(version) else f"{toolset.id}.zip"
    )


def pack_bundle(
    root: Path, toolset: Toolset, secrets: Mapping[str, str], *, allow_guesses: bool = False
) -> bytes:
    """Return the bundle of a toolset.

    None of the values of ``secrets`` (by their names) and no credential may stand in any file of
    it, nor anything that may be one, unless ``allow_guesses``.

    Raises:
        NotExportedError: with every place that is in the way.
    """
    shown = toolset.folder.relative_to(root).as_posix()
    problems = [
        one
        for one in toolset.own_problems
        if one.severity == "error" or one.code == codes.CREDENTIAL
    ]
    if allow_guesses:
        problems = [one for one in problems if one.severity == "error"]
    problems += _size_problems(toolset, shown) or _name_problems(toolset, shown)
    contents: dict[str, bytes] = {}
    if not any(one.code == codes.TOO_LARGE for one in problems):
        told = {(one.path, one.line) for one in problems if one.code == codes.CREDENTIAL}
        for file in toolset.files.files:
            content = contents[file.path] = _content(toolset.folder, file, f"{shown}/{file.path}")
            problems += [
                one
                for one in _secrets_in(content, secrets, f"{shown}/{file.path}")
                if (one.path, one.line) not in told
            ]
    if problems:
        problems.sort(key=lambda one: (one.path, one.line, one.col))
        raise NotExportedError(
            f"the toolset {toolset.id!r} is not exported as long as that is in it",
            problems=problems,
        )
    return pack_files(
        (file.path, contents[file.path], file.executable) for file in toolset.files.files
    )


def _content(folder: Path, file: BundleFile, shown: str) -> bytes:
    try:
        content = (folder / file.path).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise NotExportedError(f"{shown} cannot be read: {reason}") from None
    if hashlib.sha256(content).hexdigest() != file.sha256:
        raise NotExportedError(f"{shown} has changed meanwhile", hint="try again")
    return content


def _size_problems(toolset: Toolset, shown: str) -> list[Problem]:
    files = toolset.files.files
    hint = "a chat's workspace is the place for large data"
    problems = [
        Problem(f"{shown}/{file.path}", 0, 0, codes.TOO_LARGE, _most(MAX_FILE_BYTES), hint)
        for file in files
        if file.size > MAX_FILE_BYTES
    ]
    if len(files) > MAX_FILES:
        message = f"a bundle holds {MAX_FILES} files at most, and these are {len(files)}"
        problems.append(Problem(shown, 0, 0, codes.TOO_LARGE, message, hint))
    elif sum(file.size for file in files) > MAX_BYTES:
        message = f"the files of a bundle have {MAX_BYTES >> 20} MiB together at most"
        problems.append(Problem(shown, 0, 0, codes.TOO_LARGE, message, hint))
    return problems


def _most(size: int) -> str:
    return f"a file of a bundle has {size >> 20} MiB at most"


def _name_problems(toolset: Toolset, shown: str) -> list[Problem]:
    """Return the names that some system could not store beside the others."""
    paths = [file.path for file in toolset.files.files]
    hint = "a bundle has to open on every system: rename it"
    problems = [
        Problem(f"{shown}/{path}", 0, 0, codes.FORBIDDEN_FILE, verdict.reason, hint)
        for path in paths
        if (verdict := check_path(path)).kind == "unportable"
    ]
    for first, second in collisions(paths):
        message = f"some systems take it for {first!r}"
        problems.append(Problem(f"{shown}/{second}", 0, 0, codes.FORBIDDEN_FILE, message, hint))
    return problems


def _secrets_in(content: bytes, secrets: Mapping[str, str], shown: str) -> Iterator[Problem]:
    """Find what nobody may export, also where ``validate`` does not look: in what is no text."""
    for name, value in sorted(secrets.items()):
        place = Mask([value]).place(content) if len(value) >= _SHORTEST else None
        if place is not None:
            message = f"the value of {name}, which is set on this machine"
            yield _problem(content, place, shown, message)
    text = content.decode("latin-1")  # a byte a character, so that a place is one in the bytes
    for one in credentials(text):
        if one.certain:
            yield _problem(content, one.place, shown, f"{one.kind} in plain text: {one.shown!r}")


def _problem(content: bytes, place: int, shown: str, message: str) -> Problem:
    begins = content.rfind(b"\n", 0, place) + 1
    line, col = content.count(b"\n", 0, place) + 1, place - begins + 1
    with_text = b"\0" not in content
    hint = "write ${NAME} or take it from get_context().secrets, and revoke what stands here"
    at = (line, col) if with_text else (0, 0)
    return Problem(shown, *at, codes.CREDENTIAL, message, hint)
