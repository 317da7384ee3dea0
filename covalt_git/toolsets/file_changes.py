"""Changes of one hand-written file of a toolset: reading it, a copy of the project with the change, writing it.

The bytes are exact: line breaks, a byte order mark and the mode stay as they are.  Only a file of the toolset's
listing can be changed, which has no links, so no path leads out of the toolset.
"""

from __future__ import annotations

import contextlib
import hashlib
import shlex
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_store.outer_repository import UnknownRevisionError, write_folder
from covalt_git.manifests.project_config import config_reading
from covalt_git.manifests.project_root import CONFIG, POLICY_TESTS
from covalt_git.manifests.state_files import LOCK_FOLDER
from covalt_git.manifests.toolset_files import PYCACHE, STATE_FOLDER
from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.system import atomic_write, links
from covalt_git.toolsets.state_store import find_toolset
from covalt_git.toolsets.update_lock import locks_toolsets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.manifests.toolset_files import BundleFile
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.toolsets.toolset import Toolset

MOST_EDITED = 1 << 20
"""Maximum size in bytes of a file that can be edited here; larger ones are data."""


class FileMovedError(CovaltError):
    """A file that another program has changed since it was read."""

    code = "moved"
    http_status = 409


class NotEditableError(CovaltError):
    """A file that is not a text, or that other commands write."""

    code = "not_editable"
    http_status = 409


class ImportedError(CovaltError):
    """A change of an imported toolset that its caller did not ask for."""

    code = "imported_toolset"
    http_status = 409


class ToolsetText(NamedTuple):
    """A text file of a toolset: its entry in the listing, its exact text, and the SHA-256 of its bytes in hex."""

    file: BundleFile
    text: str
    sha256: str


def read_text(toolset: Toolset, path: str) -> ToolsetText:
    """Return a text file of a toolset.

    Raises:
        UnknownNameError: if the toolset has no such file.
        NotEditableError: if it is not UTF-8, too large, or an entry of the registered tools.
    """
    file = toolset.files.get(path)
    if file is None:
        paths = [entry.path for entry in toolset.files.files]
        raise UnknownNameError(
            "file", path, paths, list_with=f"covalt-git toolset show {toolset.id}"
        )
    if toolset.id == REGISTRY_NAMESPACE:
        raise NotEditableError(
            "entries of registered tools are not edited as files",
            hint="covalt-git registry update TOOL_ID ENTRY",
        )
    content = (toolset.folder / path).read_bytes()
    if len(content) > MOST_EDITED:
        raise NotEditableError(
            f"{path!r} is larger than {MOST_EDITED >> 20} MiB", hint="use an editor of your machine"
        )
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise NotEditableError(
            f"{path!r} is not a text in UTF-8", hint="use an editor of your machine"
        )
    return ToolsetText(file, text, hashlib.sha256(content).hexdigest())


def moved(path: str) -> FileMovedError:
    """Return the error that a file has changed since it was read."""
    return FileMovedError(
        f"another window or program changed {path!r} meanwhile, so nothing was written",
        hint="read the file again, and repeat your change",
    )


@contextmanager
def copied_toolset(root: Path, toolset_id: str) -> Iterator[Path]:
    """Yield a temporary copy of a project with one toolset: also ``covalt.yaml``, states, locks and keys of issuers."""
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        copy = Path(name)
        config = config_reading(root).value
        for path in (CONFIG, POLICY_TESTS):
            _copy_inner(root, copy, path)
        if config is not None:
            copy_keys(root, copy, config)
        copy_folders(root, copy, (STATE_FOLDER, LOCK_FOLDER, toolset_id))
        yield copy


def copy_keys(root: Path, copy: Path, config: ProjectConfig) -> None:
    """Copy the key files that ``covalt.yaml`` names to a copy of the project."""
    for issuer in config.issuers:
        if issuer.jwks_file is not None:
            _copy_inner(root, copy, issuer.jwks_file)


def copy_folders(root: Path, copy: Path, names: Iterable[str]) -> None:
    """Copy folders of ``toolsets/``, without links, to a copy of the project."""
    for folder in names:
        source = root / "toolsets" / folder
        if not source.is_dir() or links.find_link(root, source) is not None:
            continue
        # A file without permission to read it is left out: the checks report it as unreadable in the project.
        with contextlib.suppress(shutil.Error):
            shutil.copytree(
                source,
                copy / "toolsets" / folder,
                symlinks=True,
                copy_function=_copy_regular,
                ignore=shutil.ignore_patterns(PYCACHE),
            )


def _copy_inner(root: Path, copy: Path, path: str) -> None:
    # A key's path of a hostile covalt.yaml could lead to any place, also of the copy.
    if ".." in Path(path).parts or Path(path).is_absolute() or not (root / path).is_file():
        return
    (copy / path).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(root / path, copy / path)


def _copy_regular(source: str, target: str) -> None:
    """Copy a file with its mode; a device or a pipe is left out, as opening it could wait forever."""
    if Path(source).is_file():
        shutil.copy(source, target, follow_symlinks=False)


@contextmanager
def at_last_commit(root: Path, copy: Path, toolset_id: str) -> Iterator[bool]:
    """Have the toolset's files of git's last commit in a copy during the block; yield whether it has any."""
    folder, aside = copy / "toolsets" / toolset_id, copy / "aside"
    atomic_write.rename(folder, aside)
    try:
        with contextlib.suppress(UnknownRevisionError):
            write_folder(root / "toolsets" / toolset_id, "HEAD", folder)
        yield folder.is_dir() and any(folder.iterdir())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        atomic_write.rename(aside, folder)


@locks_toolsets
def replace_text(
    root: Path, toolset_id: str, path: str, content: bytes, *, base: str, local_change: bool
) -> None:
    """Write a file of a toolset, all of it or nothing, if its bytes still have the SHA-256 ``base``.

    Raises:
        FileMovedError: if another program has changed or removed it.
        ImportedError: if the toolset is imported, unless ``local_change`` is set.
        NotEditableError: as :func:`read_text`.
    """
    toolset = find_toolset(root, toolset_id)
    try:
        current = read_text(toolset, path)
    except UnknownNameError:
        current = None
    if (
        current is None
        or current.sha256 != base
        or links.find_link(root, toolset.folder / path) is not None
    ):
        raise moved(path)
    check_local_change(toolset, local_change=local_change)
    atomic_write.replace(toolset.folder / path, content)


def check_local_change(toolset: Toolset, *, local_change: bool) -> None:
    """Check that the caller knows that a toolset is imported.

    Raises:
        ImportedError: otherwise.
    """
    if toolset.state.imported and not local_change:
        raise ImportedError(
            f"{toolset.id!r} is imported: a change of its files can end grants"
            f"{', differs from what was signed' if toolset.state.signer else ''}, and is merged with each update",
            hint="send local_change: true to change it all the same",
        )


def restoring_command(root: Path, toolset_id: str, path: str, content: bytes) -> str:
    """Return the command that restores a file with this content; empty if the project's last commit has another one."""
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        try:
            write_folder(
                root / "toolsets" / toolset_id,
                "HEAD",
                Path(name) / "head",
                only={Path(path).parts[0]},
            )
        except UnknownRevisionError:
            return ""
        committed = Path(name) / "head" / path
        if committed.is_symlink() or not committed.is_file() or committed.read_bytes() != content:
            return ""
    return f"git checkout HEAD -- {shlex.quote(f'toolsets/{toolset_id}/{path}')}"
