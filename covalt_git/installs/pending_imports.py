"""Pending imports: bundles that a user has uploaded or downloaded and not confirmed yet.

:func:`stage_bundle` writes a bundle into a hidden folder of ``data``, so that the confirmation imports
the same bytes.  The folder is removed after an hour (:mod:`covalt_git.toolsets.update_lock`).
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self
from uuid import UUID

from covalt_git.bundles.archive_reader import read_archive
from covalt_git.errors import CovaltError
from covalt_git.installs.signatures import read_signature, signature_path
from covalt_git.names import new_id
from covalt_git.system.node_folder import data_of
from covalt_git.text import display
from covalt_git.toolsets.update_lock import STAGED, toolsets_lock

if TYPE_CHECKING:
    from pathlib import Path

_ARCHIVE, _SOURCE = "bundle.zip", "source.json"
_MOST_STAGED = 16
_LONGEST_NAME = 120
_FOLDERS = re.compile(r".*[/\\]", re.DOTALL)


class BundleGoneError(CovaltError):
    """A staged bundle that was imported or discarded, or has expired."""

    code = "bundle_gone"
    http_status = 404


@dataclass(frozen=True, slots=True)
class Bundle:
    """A ZIP file: its bytes, its name in messages, its source and its signature.

    ``notes`` say what a conversion from another format changed.  A ``converted`` document does not say which toolset it
    is, so that its file name decides.
    """

    content: bytes = field(repr=False)
    name: str
    source_type: Literal["zip", "url"]
    source_ref: str
    signature: bytes | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    converted: bool = False

    @classmethod
    def upload(cls, content: bytes, filename: str, signature: bytes | None = None) -> Self:
        """Return an uploaded file, named by the last part of its file name."""
        name = "".join(
            character if display.is_shown(character) else "_"
            for character in _FOLDERS.sub("", filename)
        )
        name = name[-_LONGEST_NAME:] or "bundle.zip"
        return cls(content, name, "zip", name, signature)

    @classmethod
    def read(cls, path: Path, signature: Path | None = None) -> Self:
        """Return a file with its signature, by default that of ``FILE.sig`` if it exists.

        Raises:
            CovaltError: if one of them cannot be read.
        """
        if signature is None and os.path.lexists(signature_path(path)):
            signature = signature_path(path)
        signed = read_signature(signature) if signature else None
        return cls(read_archive(path), path.name, "zip", shown_source(path), signed)

    @classmethod
    def download(cls, url: str, signature: Path | None = None) -> Self:
        """Return the download of a URL with its signature, by default that of ``URL.sig`` if it exists.

        The query of the URL is not stored, as it may be a credential.

        Raises:
            CovaltError: as :func:`covalt_git.installs.download.fetch`.
        """
        from covalt_git.installs.download import fetch, fetch_signature  # noqa: PLC0415 - few imports fetch anything

        plain = url.partition("#")[0].partition("?")[0]
        content = fetch(url)
        signed = read_signature(signature) if signature else fetch_signature(url)
        return cls(content, plain.rpartition("/")[2] or "bundle", "url", plain, signed)


def bundle_or_folder(source: Path | str, signature: Path | None = None) -> Bundle | Path:
    """Return the bundle in a file or at a URL (a ``str``) with its signature; or a folder, which cannot be signed.

    Raises:
        CovaltError: if it cannot be read or downloaded.
    """
    if isinstance(source, str):
        return Bundle.download(source, signature)
    if not source.is_dir():
        return Bundle.read(source, signature)
    if signature:
        raise CovaltError("a directory cannot be signed", hint="bundle it, and sign the bundle")
    return source


def shown_source(path: Path) -> str:
    """Return a path as it is stored in a state file, which git shares: of an absolute path only the name."""
    return path.name if path.is_absolute() else path.as_posix()


def stage_bundle(root: Path, bundle: Bundle) -> UUID:
    """Write a bundle into a new folder, which exists for an hour; return the folder's id.

    Raises:
        OSError: if it cannot be written.
    """
    bundle_id = UUID(new_id())
    folder = _folder(root, bundle_id)
    keys = ("name", "source_type", "source_ref", "notes", "converted")
    source = {key: getattr(bundle, key) for key in keys}
    with toolsets_lock(root):
        # Ids are in the order of time, so the first names are the oldest ones. The limit ends uploads that fill the
        # disk.
        for oldest in sorted(folder.parent.glob(f"{STAGED}*"))[: 1 - _MOST_STAGED]:
            shutil.rmtree(oldest, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / _ARCHIVE).write_bytes(bundle.content)
        if bundle.signature is not None:
            signature_path(folder / _ARCHIVE).write_bytes(bundle.signature)
        (folder / _SOURCE).write_text(json.dumps(source))
    return bundle_id


def staged_bundle(root: Path, bundle_id: UUID) -> Bundle:
    """Return a bundle that :func:`stage_bundle` wrote.

    Raises:
        BundleGoneError: if it was imported or discarded, or has expired.
    """
    folder = _folder(root, bundle_id)
    try:
        with toolsets_lock(root):  # the lock removes expired folders
            source = json.loads((folder / _SOURCE).read_bytes())
            source["notes"] = tuple(source.get("notes", ()))
            return dataclasses.replace(Bundle.read(folder / _ARCHIVE), **source)
    except FileNotFoundError:
        raise BundleGoneError(
            "this import is over: it was made or cancelled, or has expired",
            hint="choose the file again",
        ) from None


def drop_bundle(root: Path, bundle_id: UUID) -> None:
    shutil.rmtree(_folder(root, bundle_id), ignore_errors=True)


def _folder(root: Path, bundle_id: UUID) -> Path:
    return data_of(root) / f"{STAGED}{bundle_id}"
