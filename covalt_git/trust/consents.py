"""Consents of the user of this machine: files outside of projects, one for each permission of a project.

A consent is for one folder and one exact fact, as with direnv, so that a moved or copied folder and a changed fact
need another one.  Each is a file of its own, so that two commands can write at the same time without a lock, and
a user can read and delete them.  ``trusted-folders`` lists folders whose projects need no consent.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, NamedTuple

from covalt_git import timestamps
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.names import new_id
from covalt_git.system import atomic_write
from covalt_git.system.private_files import read_private, user_folder
from covalt_git.system.remove_tree import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.trust.permission import Permission

_FOLDER = "trusted"
_TRUSTED_FOLDERS = "trusted-folders"
_ORIGIN = "data/made-here"
_SHOWN = 3


class NotTrustedError(CovaltError):
    """An action needs permissions of the project that the user has not trusted on this machine."""

    code = "not_trusted"
    http_status = 403

    def __init__(self, permissions: Iterable[Permission]) -> None:
        words = [permission.words for permission in permissions]
        shown = "; ".join(words[:_SHOWN])
        more = f"; and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
        super().__init__(
            f"the project asks for permissions that are not trusted on this machine: {shown}{more}",
            hint="covalt-git trust",
        )


class UnreadableConsentError(CovaltError):
    """A file with a consent that other users can access, or that cannot be read."""

    code = "consent_unreadable"


class Consent(NamedTuple):
    """The file of one consent, and the fact that it must contain; ``words`` describe it for a user who opens it."""

    file: Path
    fact: JsonObject
    words: str = ""

    @property
    def exists(self) -> bool:
        """Whether the user has consented to exactly this fact.

        Raises:
            UnreadableConsentError: if other users can access the file.
        """
        text = read_private(self.file, UnreadableConsentError)
        try:
            content = json.loads(text) if text is not None else None
        except ValueError:
            return False
        return isinstance(content, dict) and all(
            content.get(name) == value for name, value in self.fact.items()
        )

    def give(self, reason: str | None = None) -> None:
        """Store the consent, with its time and the ``reason`` that a script stated."""
        notes = {"words": self.words, "at": timestamps.now(), "reason": reason}
        content = self.fact | {name: note for name, note in notes.items() if note}
        text = json.dumps(content, indent=2, ensure_ascii=True) + "\n"
        atomic_write.replace(self.file, text, private=True)

    def withdraw(self) -> bool:
        """Remove the consent; return whether there was one."""
        was_there = self.file.exists()
        self.file.unlink(missing_ok=True)
        return was_there


class Consents(NamedTuple):
    """The consents of the user of this machine for the project in ``root``, a resolved path."""

    root: Path

    @classmethod
    def of(cls, root: Path) -> Consents:
        """Return the consents for a project; links in its path do not make it another one."""
        return cls(root.resolve())

    @property
    def folder(self) -> Path:
        """The folder of the consents."""
        project = canonical_json.digest({"project": str(self.root)})
        return user_folder() / _FOLDER / project.partition(":")[2]

    @property
    def files(self) -> tuple[Path, ...]:
        """The paths whose times change when a consent is given or withdrawn."""
        return self.folder, user_folder() / _TRUSTED_FOLDERS

    @property
    def cover_everything(self) -> bool:
        """Whether ``trusted-folders`` has a folder that contains the project.

        Raises:
            UnreadableConsentError: if other users can access the file.
        """
        text = read_private(user_folder() / _TRUSTED_FOLDERS, UnreadableConsentError) or ""
        return any(self.root.is_relative_to(line) for line in text.splitlines() if line)

    def lacking(self, permissions: Iterable[Permission]) -> list[Permission]:
        """Return the permissions that the user has not trusted.

        Raises:
            UnreadableConsentError: if other users can access a file.
        """
        wanted = list(permissions)
        if not wanted or self.cover_everything:
            return []
        # Almost always no consent or all exist: list the folder before a file is read for each of many permissions.
        names = set[str]()
        with contextlib.suppress(FileNotFoundError):
            names = {file.name for file in self.folder.iterdir()}
        lacking = [
            permission
            for permission in wanted
            if self._of(permission).file.name not in names or not self._of(permission).exists
        ]
        origin = self._local_origin() if lacking else None
        if origin is not None and origin.exists and not _has_fetched(self.root):
            # No commit of others came to the repository, so its user wrote the files, or copied them.  They are stored, so that they stay trusted when
            # the user adds a remote; only then can others change the files.
            with contextlib.suppress(OSError):
                self.trust(lacking)
            return []
        return lacking

    def check(self, permissions: Iterable[Permission]) -> None:
        """Check that the user has trusted all of these permissions.

        Raises:
            NotTrustedError: with those that are not trusted.
        """
        lacking = self.lacking(permissions)
        if lacking:
            raise NotTrustedError(lacking)

    def trust(self, permissions: Iterable[Permission], reason: str | None = None) -> None:
        """Trust permissions on this machine."""
        for permission in permissions:
            self._of(permission).give(reason)

    def trust_new_project(self) -> None:
        """Trust a project that the user makes on this machine, as long as it fetches nothing from elsewhere.

        The path alone would also be that of another project, unpacked there later.  So a random id in ``data/``, which
        no author of another project knows, says that the folder is still the same project.
        """
        atomic_write.replace(self.root / _ORIGIN, new_id(), private=True)
        origin = self._local_origin()
        assert origin is not None
        origin.give()

    def _local_origin(self) -> Consent | None:
        try:
            text = (self.root / _ORIGIN).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        fact = {"project": str(self.root), "made_here": text}
        return Consent(
            self.folder / "made-here.json", fact, "this project was made on this machine"
        )

    def distrust(self, permissions: Iterable[Permission]) -> list[Permission]:
        """Withdraw the trust in permissions; return those that were trusted."""
        return [permission for permission in permissions if self._of(permission).withdraw()]

    def withdraw_all(self) -> None:
        """Withdraw every consent for the project, also those for permissions that its files no longer have."""
        remove_tree(self.folder)

    def _of(self, permission: Permission) -> Consent:
        fact = {"project": str(self.root), "permits": permission.fact}
        name = f"{permission.digest.partition(':')[2]}.json"
        return Consent(self.folder / name, fact, permission.words)


def _has_fetched(root: Path) -> bool:
    """Return whether commits of others can have reached the repository around ``root``: it has a remote, or fetched."""
    for folder in (root, *root.parents):
        git = folder / ".git"
        if git.is_dir():
            try:
                config = (git / "config").read_text(encoding="utf-8", errors="replace").lower()
            except OSError:
                return True
            # `git pull URL` needs no remote; an included file may declare some.
            declared = "[remote" in config or "[include" in config
            return declared or (git / "FETCH_HEAD").exists() or _has_foreign_moves(git / "logs")
        if git.exists():  # a linked worktree or a submodule
            return True
    return False


def _has_foreign_moves(logs: Path) -> bool:
    """Return whether a commit may have come by a patch or a fetch, of which only the reflogs have a trace.

    Git can be configured to write no reflogs.  Then the origin of the commits is unknown, so the result is True.
    """
    if not (logs / "HEAD").exists():
        return True
    return any(
        move in file.read_bytes()
        for file in logs.rglob("*")
        if file.is_file()
        for move in (b"\tam: ", b"\tfetch", b"\tpull", b"\tclone: ")
    )


def trust_folder(folder: Path) -> None:
    """Trust all projects in a folder and below it, also those that do not exist yet."""
    file = user_folder() / _TRUSTED_FOLDERS
    before = (read_private(file, UnreadableConsentError) or "").splitlines()
    lines = dict.fromkeys([*filter(None, before), str(folder.resolve())])
    atomic_write.replace(file, "".join(f"{line}\n" for line in lines), private=True)
