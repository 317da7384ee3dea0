"""Bundles that are here and not taken yet: what somebody sent, or an address gave, to be looked at first.

One is kept for an hour in ``data/incoming``, under the hash of its bytes and of where they came from, so
that what is taken later is what was looked at, or nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self

from covalt_git import canonical_json
from covalt_git.errors import CovaltError
from covalt_git.names import new_id

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

    @classmethod
    def sent(cls, content: bytes, filename: str) -> Self:
        """Return a file that somebody sent, under the name it had; folders are left out of that."""
        name = "".join(one if one.isprintable() else "_" for one in _FOLDERS.sub("", filename))
        name = name[-_LONGEST_NAME:] or "bundle.zip"
        return cls(content, name, "zip", name)

    @classmethod
    def fetched(cls, url: str) -> Self:
        """Return what is at an address; its query, which may be a credential, is forgotten.

        Raises:
            CovaltError: as :func:`covalt_git.installs.fetching.fetch`.
        """
        from covalt_git.installs.fetching import fetch  # noqa: PLC0415 - few imports fetch anything

        plain = url.partition("#")[0].partition("?")[0]
        return cls(fetch(url), plain.rpartition("/")[2] or "bundle", "url", plain)


def keep(root: Path, bundle: Bundle) -> str:
    """Keep a bundle for an hour, and return the id under which :func:`kept` gives it back."""
    folder = _folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    _clear(folder)
    told = {
        "name": bundle.name,
        "source_type": bundle.source_type,
        "source_ref": bundle.source_ref,
    }
    whole = canonical_json.dumps(told) + b"\n" + bundle.content
    bundle_id = hashlib.sha256(whole).hexdigest()
    temporary = folder / f".{new_id()}"
    temporary.write_bytes(whole)
    temporary.replace(folder / bundle_id)
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
    told, _, content = whole.partition(b"\n")
    return Bundle(content, **json.loads(told))


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
