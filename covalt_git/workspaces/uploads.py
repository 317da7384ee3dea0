"""Where uploaded files go: the names they get, and which of them have to be written at all."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_objects import LINK, blob_id
from covalt_git.models.commit_record import UploadedFile
from covalt_git.workspaces.snapshot import check_storable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.workspaces.folders import Folder


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to add: the name it should have, and its content."""

    name: str
    content: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Placing:
    """Where each upload goes, in order, and what has to be written where."""

    placed: tuple[UploadedFile, ...]
    fresh: dict[str, Upload]


def place(
    root: Folder,
    uploads: Sequence[Upload],
    folder: str,
    config: WorkspaceConfig,
    object_format: str,
) -> Placing:
    """Choose a path in ``folder`` of the workspace for every upload; nothing is written.

    A name that is taken gets a number (``report_1.csv``), unless the content is the same.

    Raises:
        CovaltError: for a folder, a name or a size that cannot be stored.
    """
    below = f"{folder.removesuffix('/')}/" if folder else ""
    if below and not root.is_folder(below[:-1]) and not root.is_free(below[:-1]):
        raise CovaltError(
            f"{folder!r} is no folder of the workspace", hint="choose another for --to"
        )
    placed: list[UploadedFile] = []
    fresh: dict[str, Upload] = {}
    for upload in uploads:
        oid = blob_id(upload.content, object_format)
        wanted = below + upload.name
        for path in _names(wanted):
            if "/" in upload.name:
                raise CovaltError(
                    f"{upload.name!r} is no file name", hint="name its folder with --to FOLDER"
                )
            check_storable(path, upload.content, config)
            if path not in fresh and root.is_free(path):
                fresh[path] = upload
                break
            there = root.state(path, object_format)
            if there is not None and there.mode != LINK and there.oid == oid:
                break
            if path in fresh and fresh[path].content == upload.content:
                break
        placed.append(UploadedFile(path=path, renamed_from=wanted if path != wanted else None))
    return Placing(tuple(placed), fresh)


def _names(wanted: str) -> Iterator[str]:
    """Yield the name that is wanted, then those with a number before its ending."""
    stem, dot, ending = wanted.rpartition(".")
    if not stem or "/" in ending or stem.endswith("/"):
        stem, dot, ending = wanted, "", ""
    yield wanted
    for number in itertools.count(1):
        yield f"{stem}_{number}{dot}{ending}"
