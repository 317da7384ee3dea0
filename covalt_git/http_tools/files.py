"""Workspace files that HTTP tools send and receive; links are never followed."""

from __future__ import annotations

import errno
import mimetypes
import re
import stat
from email.message import Message
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from covalt_git.errors import CovaltError
from covalt_git.file_edits import uploads
from covalt_git.git_store.objects import FILE
from covalt_git.paths import check_element, check_path
from covalt_git.text.normal_form import normalized
from covalt_git.workspaces.folders import Folder, create

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.project_config import WorkspaceConfig

_NOT_PORTABLE = r'[<>:"|?*\x00-\x1f\x7f-\x9f\u2028\u2029]'
_MAX_NAME = 120


class NoSuchFileError(CovaltError):
    """A file that the workspace does not have, or that cannot be sent."""

    code = "no_such_file"


class LockedWorkspace(NamedTuple):
    """Workspace of a chat while its lock is held."""

    folder: Path
    config: WorkspaceConfig
    object_format: str

    def read(self, path: str) -> bytes:
        """Return the bytes of a regular file.

        Raises:
            NoSuchFileError: if the path is anything else.
        """
        verdict = check_path(path)
        if verdict.kind == "refused":
            raise NoSuchFileError(f"{path[:200]!r} is not in the workspace: {verdict.reason}")
        entry = None
        try:
            # By the descriptor of each folder on the way: another process can put a link in its place at any time
            # (test_nothing_but_a_file_of_the_workspace_is_sent).
            with Folder.opened(self.folder) as root:
                entry = root.read(path, most=self.config.max_file_mb << 20)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            if error.errno == errno.EFBIG:
                why = f"it is larger than {self.config.max_file_mb} MiB"
            raise NoSuchFileError(f"{path!r} cannot be read: {why}") from None
        if entry is None or stat.S_ISLNK(entry[0].st_mode):
            raise NoSuchFileError(f"{path!r} is not a regular file")
        return entry[1]

    def save(self, name: str, content: bytes) -> str:
        """Write a file into the workspace's top folder and return its path.

        If the name exists already with other content, the file gets a number.

        Raises:
            CovaltError: if the workspace cannot store it.
        """
        with Folder.opened(self.folder) as root:
            files = [uploads.NewFile(name, content)]
            placed, fresh = uploads.place(root, files, "", self.config, self.object_format)
            for path in fresh:
                create(path, FILE, content, parent=root.handle)
            return placed[0].path


def file_name(disposition: str, url: str, media_type: str) -> str:
    """Return a safe name for an answer's file: from its header, else from its URL."""
    message = Message()
    message["Content-Disposition"] = disposition
    try:
        declared = message.get_filename() or ""
    except (LookupError, ValueError):  # an unknown charset
        declared = ""
    path = url.partition("?")[0].partition("://")[2].partition("/")[2]
    ending = mimetypes.guess_extension(media_type) or ".bin"
    name = _harmless(declared) or _harmless(unquote(path.rpartition("/")[2])) or "download"
    return name if "." in name else name + ending


def _harmless(name: str) -> str:
    # The server chooses the name: it can be a path out of the workspace, also of Windows, or `.git`.
    last = re.split(r"[/\\]", name)[-1]
    plain = normalized("NFC", re.sub(_NOT_PORTABLE, "_", last)).strip(" .")
    stem, dot, ending = plain.rpartition(".")
    if len(plain) > _MAX_NAME:
        plain = (stem or plain)[: _MAX_NAME - len(ending) - 1] + dot + ending[:_MAX_NAME]
    return plain if check_element(plain).kind == "good" else ""
