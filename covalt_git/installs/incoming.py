"""Bundles that are here and not taken yet: what somebody sent, or an address gave, to be looked at first.

One is kept for an hour in ``data/incoming``, under the hash of its bytes and of where they came from, so
that what is taken later is what was looked at, or nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self

from covalt_git import canonical_json
from covalt_git.errors import CovaltError
from covalt_git.files.bundle_reading import read_archive
from covalt_git.installs.signatures import beside, read_signature
from covalt_git.system import atomic_write
from covalt_git.text import display

if TYPE_CHECKING:
    from pathlib import Path

_AN_HOUR = 3600
_MOST_KEPT = 16
_LONGEST_NAME = 120
_BUNDLE_ID = re.compile(r"[0-9a-f]{64}")
_FOLDERS = re.compile(r".*[/\\]", re.DOTALL)


class BundleGoneError(CovaltError):
    """A bundle that was to be looked at is not there, or not any more."""

    code = "bundle_gone"
    http_status = 404


@dataclass(frozen=True, slots=True)
class Bundle:
    """The bytes of a ZIP, what it is called where its problems are told, and where it came from."""

    content: bytes = field(repr=False)
    name: str
    source_type: Literal["zip", "url"]
    source_ref: str
    signature: bytes | None = field(default=None, repr=False)

    @classmethod
    def sent(cls, content: bytes, filename: str, signature: bytes | None = None) -> Self:
        """Return a file that somebody sent, under the name it had; folders are left out of that."""
        name = "".join(one if display.is_shown(one) else "_" for one in _FOLDERS.sub("", filename))
        name = name[-_LONGEST_NAME:] or "bundle.zip"
        return cls(content, name, "zip", name, signature)

    @classmethod
    def read(cls, path: Path, signature: Path | None = None) -> Self:
        """Return a file, with the signature of another one or the one that lies beside it.

        Raises:
            CovaltError: when one of them cannot be read.
        """
        if signature is None and os.path.lexists(beside(path)):
            signature = beside(path)
        signed = read_signature(signature) if signature else None
        return cls(read_archive(path), path.name, "zip", shown_source(path), signed)

    @classmethod
    def fetched(cls, url: str, signature: Path | None = None) -> Self:
        """Return what is at an address, with a file's signature or the one that is beside it there.

        The query of the address, which may be a credential, is forgotten.

        Raises:
            CovaltError: as :func:`covalt_git.installs.fetching.fetch`.
        """
        from covalt_git.installs.fetching import (  # noqa: PLC0415 - few imports fetch anything
            fetch,
            fetch_signature,
        )

        plain = url.partition("#")[0].partition("?")[0]
        content = fetch(url)
        signed = read_signature(signature) if signature else fetch_signature(url)
        return cls(content, plain.rpartition("/")[2] or "bundle", "url", plain, signed)


def shown_source(path: Path) -> str:
    """Return a path as a checked-in file may hold it, which is no place for one machine's folders."""
    return path.name if path.is_absolute() else path.as_posix()


def keep(root: Path, bundle: Bundle) -> str:
    """Keep a bundle for an hour, and return the id under which :func:`kept` gives it back."""
    folder = _folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    _clear(folder)
    told = {
        "name": bundle.name,
        "source_type": bundle.source_type,
        "source_ref": bundle.source_ref,
        "signature": None if bundle.signature is None else bundle.signature.decode("latin-1"),
    }
    whole = canonical_json.dumps(told) + b"\n" + bundle.content
    bundle_id = hashlib.sha256(whole).hexdigest()
    atomic_write.replace(folder / bundle_id, whole)
    return bundle_id


def kept(root: Path, bundle_id: str) -> Bundle:
    """Return the bundle that was kept under an id.

    Raises:
        BundleGoneError: when its hour is over, or its bytes are others than they were.
    """
    gone = BundleGoneError("there is no such bundle here any more", hint="choose it again")
    if not _BUNDLE_ID.fullmatch(bundle_id):
        raise gone
    file = _folder(root) / bundle_id
    try:
        old = file.stat().st_mtime < time.time() - _AN_HOUR
        whole = file.read_bytes()
    except OSError:
        raise gone from None
    if old or hashlib.sha256(whole).hexdigest() != bundle_id:
        raise gone
    line, _, content = whole.partition(b"\n")
    told = json.loads(line)
    signature = told.pop("signature")
    return Bundle(content, **told, signature=signature and signature.encode("latin-1"))


def forget(root: Path, bundle_id: str) -> None:
    """Remove a bundle that was taken, or that nobody wants."""
    if _BUNDLE_ID.fullmatch(bundle_id):
        (_folder(root) / bundle_id).unlink(missing_ok=True)


def _folder(root: Path) -> Path:
    return root / "data" / "incoming"


def _clear(folder: Path) -> None:
    """Remove what is too old, and the oldest of too many."""
    found = sorted((file.stat().st_mtime, file) for file in folder.iterdir())
    for number, (changed, file) in enumerate(reversed(found), 1):
        if changed < time.time() - _AN_HOUR or number >= _MOST_KEPT:
            file.unlink(missing_ok=True)
