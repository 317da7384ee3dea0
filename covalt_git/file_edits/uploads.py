"""Uploads of files into a workspace: their paths, and one commit of all."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from covalt_git.errors import CovaltError
from covalt_git.file_edits import edits
from covalt_git.git_store.objects import EXECUTABLE, FILE, LINK, TreeEntry, blob_id
from covalt_git.models.commit_record import UploadedFile
from covalt_git.names import new_id
from covalt_git.workspaces import trees
from covalt_git.workspaces.folders import Folder
from covalt_git.workspaces.rules import check_storable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.workspaces.writer import Writer


class NewFile(NamedTuple):
    """A file to add, with its wanted name."""

    name: str
    content: bytes
    executable: bool = False


class Uploaded(UploadedFile):
    """An uploaded file; ``renamed_from`` is the requested path, if that already existed."""

    renamed_from: str | None
    was_there: bool = Field(description="Whether the same content was at that path before.")


def check_size(name: str, size: int, config: WorkspaceConfig) -> None:
    """Check, before an upload is read, that a file of ``size`` bytes can be stored.

    Raises:
        CovaltError: if it is too large; the message names the setting of the limit.
    """
    if size > config.max_file_mb << 20:
        raise CovaltError(
            f"{name!r} cannot be stored: it is larger than {config.max_file_mb} MiB",
            hint="raise workspace.max_file_mb in covalt.yaml",
        )


def place(
    root: Folder,
    uploads: Sequence[NewFile],
    folder: str,
    config: WorkspaceConfig,
    object_format: str,
    *,
    existing: Collection[str] | None = None,
) -> tuple[tuple[Uploaded, ...], dict[str, NewFile]]:
    """Return the path of each upload in ``folder``, in order, and the files to write by path; nothing is written.

    If a name already exists, the upload gets a number (``report_1.csv``), unless one of these files has the same
    content.  With ``existing`` files, a path that some system cannot check out is refused.

    Raises:
        CovaltError: for a folder, a name or a size that cannot be stored.
    """
    below = f"{folder.removesuffix('/')}/" if folder else ""
    # No file has a new id as its name. So the only reason why this name is not available is that `folder` is a file or
    # a link.
    if root.state(below + new_id(), object_format) is not None:
        raise CovaltError(
            f"{folder!r} is not a folder of the workspace", hint="choose another for --to"
        )
    placed: list[Uploaded] = []
    fresh: dict[str, NewFile] = {}
    for upload in uploads:
        if "/" in upload.name:
            raise CovaltError(
                f"{upload.name!r} is not a file name", hint="give the folder with --to FOLDER"
            )
        oid = blob_id(upload.content, object_format)
        requested = below + upload.name
        for path in _names(requested):
            check_storable(path, upload.content, config)
            # A larger file has another content: a tool can create many huge ones with the names that would be tried
            # (test_a_huge_file_of_the_same_name_is_not_read).
            present = root.state(path, object_format, most=len(upload.content))
            was_there = path in fresh or present is not None
            if not was_there:
                if existing is not None:
                    edits.check_portable(path)
                    edits.check_no_collision(path, [*existing, *fresh])
                fresh[path] = upload
                break
            if present is not None and present.mode != LINK and present.oid == oid:
                break
            if path in fresh and fresh[path].content == upload.content:
                break
        renamed_from = requested if path != requested else None
        placed.append(Uploaded(path=path, renamed_from=renamed_from, was_there=was_there))
    return tuple(placed), fresh


def _names(path: str) -> Iterator[str]:
    """Yield a path, and then paths with a number before the extension."""
    stem, dot, ending = path.rpartition(".")
    # The dot of `.env` or of a folder begins no extension.
    if not stem or "/" in ending or stem.endswith("/"):
        stem, dot, ending = path, "", ""
    yield path
    for number in itertools.count(1):
        yield f"{stem}_{number}{dot}{ending}"


def upload(
    writer: Writer,
    files: Sequence[NewFile],
    *,
    folder: str = "",
    portable: bool = False,
    check: Callable[[str, NewFile], None] = lambda _path, _file: None,
) -> tuple[Uploaded, ...]:
    """Add files to the workspace in one commit; return their paths.

    If a name already exists, the file gets a number (``report_1.csv``), unless the content is the same.
    With ``portable``, a path that some system cannot check out is refused; otherwise it gets a note.  ``check`` is
    called with the path of each file that is written, which is known only here: it may have a number.

    Raises:
        CovaltError: for a folder, a name or a size that cannot be stored, or by ``check``; nothing was added.
    """
    chat, store = writer.chat, writer.chat.store
    # First: a file that a user creates after a path was chosen would be in this commit, and the upload would
    # replace it (test_a_file_that_appears_during_an_upload_is_not_replaced).
    head = writer.commit_changes()
    existing = chat.files(head) if portable else None
    with Folder.opened(chat.workspace) as root:
        placed, fresh = place(
            root, files, folder, chat.config, store.object_format, existing=existing
        )
    for path, file in fresh.items():
        check(path, file)
    if fresh:
        entries = {
            path: TreeEntry(
                b"", EXECUTABLE if file.executable else FILE, store.write_blob(file.content)
            )
            for path, file in fresh.items()
        }
        names = ", ".join(file.path for file in placed)
        new = trees.edited_state(store, chat.state(head), entries)
        uploaded = tuple(
            UploadedFile(path=file.path, renamed_from=file.renamed_from) for file in placed
        )
        writer.commit_files("user_upload", new, head, subject=names, upload=uploaded)
    return placed
