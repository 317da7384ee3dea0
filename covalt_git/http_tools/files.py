"""Files of the workspace that HTTP tools send and receive; no link is ever followed."""

from __future__ import annotations

import errno
import mimetypes
import os
import re
import stat
import unicodedata
from dataclasses import dataclass
from email.message import Message
from typing import TYPE_CHECKING
from urllib.parse import unquote

from covalt_git.errors import CovaltError
from covalt_git.file_edits import uploads
from covalt_git.git_store import FILE
from covalt_git.paths import check_element, check_path
from covalt_git.workspaces.folders import Folder, create, read_entry

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.models.project_config import WorkspaceConfig

_NOT_PORTABLE = re.compile(r'[<>:"|?*\x00-\x1f\x7f-\x9f\u2028\u2029]')
_MAX_NAME = 120
_FALLBACK = "download"


class NoSuchFileError(CovaltError):
    """The workspace has no such file, or it cannot be sent."""

    code = "no_such_file"


@dataclass(frozen=True, slots=True)
class WorkspaceFiles:
    """The workspace of a chat while its lock is held."""

    folder: Path
    config: WorkspaceConfig
    object_format: str

    def read(self, path: str) -> bytes:
        """Return the bytes of a regular file.

        Raises:
            NoSuchFileError: for everything else.
        """
        verdict = check_path(path)
        if verdict.kind == "refused":
            raise NoSuchFileError(f"{path[:200]!r} is no file of the workspace: {verdict.reason}")
        most = self.config.max_file_mb << 20
        try:
            with Folder.opened(self.folder) as root, root.parent_of(path) as (parent, name):
                status = os.lstat(name, dir_fd=parent)
                if not stat.S_ISREG(status.st_mode):
                    raise NoSuchFileError(f"{path!r} is not a regular file")
                found = read_entry(parent, name, status, most=most)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            if error.errno == errno.EFBIG:
                why = f"it is larger than {self.config.max_file_mb} MiB"
            raise NoSuchFileError(f"{path!r} cannot be read: {why}") from None
        if found is None:
            raise NoSuchFileError(f"{path!r} is not a regular file")
        return found[1]

    def save(self, name: str, content: bytes) -> str:
        """Put bytes at the top of the workspace and return the path they got.

        A name that is taken gets a number, unless the content is the same.

        Raises:
            CovaltError: when the workspace cannot hold them.
        """
        with Folder.opened(self.folder) as root:
            wanted = uploads.Upload(name, content)
            placing = uploads.place(root, [wanted], "", self.config, self.object_format)
            for path in placing.fresh:
                create(path, FILE, content, parent=root.handle)
            return placing.placed[0].path


def file_name(disposition: str, url: str, media_type: str) -> str:
    """Return the name that an answer's file gets: what its sender says, made harmless, else its URL's."""
    for said in (_of_disposition(disposition), _of_url(url)):
        name = _harmless(said)
        if name:
            return name if "." in name else name + _ending(media_type)
    return _FALLBACK + _ending(media_type)


def _of_disposition(disposition: str) -> str:
    message = Message()
    message["Content-Disposition"] = disposition
    try:
        return message.get_filename() or ""
    except (LookupError, ValueError):  # a charset that nobody knows
        return ""


def _of_url(url: str) -> str:
    return unquote(url.partition("?")[0].partition("://")[2].partition("/")[2].rpartition("/")[2])


def _harmless(name: str) -> str:
    last = re.split(r"[/\\]", name)[-1]
    plain = unicodedata.normalize("NFC", _NOT_PORTABLE.sub("_", last)).strip(" .")
    stem, dot, ending = plain.rpartition(".")
    if len(plain) > _MAX_NAME:
        plain = (stem or plain)[: _MAX_NAME - len(ending) - 1] + dot + ending[:_MAX_NAME]
    return plain if check_element(plain).kind == "good" else ""


def _ending(media_type: str) -> str:
    return mimetypes.guess_extension(media_type) or ".bin"
