"""Consents of the user of this machine: files outside of projects, one for each permission of a project.

A consent is for one folder and one exact fact, as with direnv, so that a moved or copied folder and a changed fact
need another one.  The folder is its path and the id in its ``data/``, so that another project at the same path needs
consents of its own.  Each is a file, so that two commands can write at the same time without a lock, and a user can
read and delete them.  ``trusted-folders`` lists folders whose projects need no consent.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, NamedTuple

from covalt_git import timestamps
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.system import atomic_write
from covalt_git.system.node_folder import node_of
from covalt_git.system.private_files import read_private, user_folder
from covalt_git.system.remove_tree import remove_tree
from covalt_git.trust.consent import Consent, UnreadableConsentError
from covalt_git.trust.history import has_remote, is_all_own
from covalt_git.trust.own_data import (
    FOLDER_ID,
    adopt,
    folder_id,
    forget_adopted,
    is_own,
    known_folders,
)
from covalt_git.trust.permission import Permission

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

    from covalt_git.json_values import JsonObject

_FOLDER = "trusted"
_TRUSTED_FOLDERS = "trusted-folders"
_SHOWN = 3

IMPORTED = "imported"
"""Key of the facts about imported toolsets, of whose files the user is never the author."""


NOT_TRUSTED = "not trusted on this machine"


class NotTrustedError(CovaltError):
    """An action needs permissions of the project that the user has not trusted on this machine."""

    code = "not_trusted"
    http_status = 403

    def __init__(self, permissions: Iterable[Permission], root: Path | None = None) -> None:
        texts = [permission.text for permission in permissions]
        summary = "; ".join(texts[:_SHOWN])
        more = f"; and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        super().__init__(
            f"the project asks for permissions that are {NOT_TRUSTED}: {summary}{more}{_why(root)}",
            hint="covalt-git trust",
        )


def _why(root: Path | None) -> str:
    """Return why the project at ``root`` is not trusted any more, as the end of a sentence; empty if this is not known."""
    if root is None or not Consents.of(root).was_own:
        return ""
    return "; its files are not trusted as your own any more, because its git repository has a remote, whose commits may be of others"


class TrustedFact(NamedTuple):
    """A fact that the user has trusted, and the words that described it then."""

    fact: JsonObject
    words: str


class Consents(NamedTuple):
    """The consents of the user of this machine for the project in ``root``, a resolved path.

    Those of a node are for all commits of its project, whose files are ``is_fetched``, and so never the user's own.
    """

    root: Path
    is_fetched: bool = False

    @classmethod
    def of(cls, root: Path) -> Consents:
        """Return the consents for a project; links in its path do not make it another one."""
        node = node_of(root)
        return cls(node.resolve(), is_fetched=node != root)

    @property
    def folder(self) -> Path:
        project = canonical_json.digest({"project": str(self.root)})
        return user_folder() / _FOLDER / project.partition(":")[2]

    @property
    def files(self) -> tuple[Path, ...]:
        """The paths whose times change when a consent is given or withdrawn."""
        trusted = user_folder() / _TRUSTED_FOLDERS
        return self.folder, trusted, known_folders(), self.root / FOLDER_ID

    @property
    def cover_everything(self) -> bool:
        """Whether ``trusted-folders`` has a folder that contains the project.

        Raises:
            UnreadableConsentError: if other users can access the file.
        """
        return any(self.root.is_relative_to(folder) for folder in _trusted_folders())

    def check_data(self) -> None:
        """Check that ``data/`` belongs to this user; create it if it does not exist.

        Raises:
            NotTrustedError: if commands of this user did not make it.
        """
        if not self.has_own_data():
            raise NotTrustedError([foreign_data()])

    def has_own_data(self) -> bool:
        """Return whether ``data/`` belongs to this user; create it if it does not exist."""
        return is_own(self.root) or self.cover_everything

    @property
    def project(self) -> JsonObject:
        """The fact that names the project in every consent and login: its path, and the id in its ``data/``.

        With the path alone, another project at the path of a deleted one would have what the user gave to that one.
        """
        return {"project": str(self.root), "folder": folder_id(self.root)}

    def identify(self) -> JsonObject:
        """Return :attr:`project`, after giving it an id if it has none, as in a trusted folder.

        Raises:
            NotTrustedError: if ``data/`` is another user's, which a decision about something else does not change.
        """
        self.check_data()
        if folder_id(self.root) is None:
            adopt(self.root)
        return self.project

    def lacking(
        self, permissions: Iterable[Permission], *, strict: bool = True
    ) -> list[Permission]:
        """Return the permissions, or the parts of them, that the user has not trusted.

        Unless ``strict``, a file that cannot be used permits nothing: a page that only lists permissions has to work.

        Raises:
            UnreadableConsentError: if ``strict``, and other users can access a file.
        """
        requested = list(permissions)
        try:
            if not requested or self.cover_everything:
                return []
        except UnreadableConsentError:
            if strict:
                raise
        # Almost always no consent or all exist: list the folder before a file is read for each of many permissions.
        names = set[str]()
        with contextlib.suppress(FileNotFoundError):
            names = {file.name for file in self.folder.iterdir()}
        project, folder = self.project, self.folder
        lacking = []
        for permission in requested:
            consent = Consent(folder / _file_name(permission.key), _fact(project, permission))
            part = _beyond(permission, consent, names, strict=strict)
            if part is not None:
                lacking.append(part)
        # Imported toolsets were written by other users, also in a project that this user made.
        own = [permission for permission in lacking if IMPORTED not in permission.fact]
        if not own or not self._is_all_own(strict=strict):
            return lacking
        # The user wrote the other files, or copied them.  This is not stored: git writes the files of another user's
        # commit before it records the checkout, so a process that looks meanwhile would trust them for ever.
        return [permission for permission in lacking if IMPORTED in permission.fact]

    def check(self, permissions: Iterable[Permission]) -> None:
        """Check that the user has trusted all of these permissions.

        Raises:
            NotTrustedError: with those that are not trusted.
        """
        lacking = self.lacking(permissions)
        if lacking:
            raise NotTrustedError(lacking, self.root)

    def trust(self, permissions: Iterable[Permission], reason: str | None = None) -> None:
        """Trust permissions on this machine, in addition to what the user has trusted.

        Raises:
            NotTrustedError: if ``data/`` is another user's, which a decision about something else does not change.
        """
        self.identify()
        for permission in permissions:
            reach = self._reach(permission)
            new = permission.beyond(reach)
            if new is not None:
                reach |= {name: sorted(limits) for name, limits in new.reach.items()}
            self._of(permission).give(reason, reach=reach)

    def trust_new_project(self) -> None:
        """Trust a new project of the user, as long as all of its commits are made on this machine.

        Raises:
            NotTrustedError: if ``data/`` is another user's.
        """
        self.identify()
        self._origin().give()

    def distrust(self, permissions: Iterable[Permission]) -> None:
        """Withdraw the trust in permissions, whatever they reach."""
        for permission in permissions:
            self._of(permission).withdraw()

    def distrust_earlier(
        self, toolset_id: str, ends: Callable[[JsonObject], bool], remaining: Collection[str]
    ) -> None:
        """Withdraw the trust in facts about a toolset that ``ends`` returns true for, but for the keys in ``remaining``.

        The facts are read from the consents, because a pull may have changed them in the project.  A consent for an
        earlier definition of a server would otherwise count again when a later pull restores that definition.
        """
        remaining_files = {_file_name(key) for key in remaining}
        for consent, content in self._about(toolset_id):
            if consent.file.name not in remaining_files and ends(content["permits"]):
                consent.withdraw()

    def about(self, toolset_id: str) -> dict[str, TrustedFact]:
        """Return what the user has trusted about a toolset, whatever the project's files contain, by unique names."""
        return {
            consent.file.name: TrustedFact(content["permits"], str(content.get("words", "")))
            for consent, content in self._about(toolset_id)
        }

    def narrow(self, permission: Permission) -> None:
        """Withdraw the trust in what a permission no longer reaches, so that a pull that restores it needs trust."""
        trusted = self._reach(permission)
        remaining = {name: trusted[name] for name in trusted if name in permission.reach}
        if remaining != trusted:
            self._of(permission).give(reach=remaining)

    def withdraw_all(self) -> None:
        """Withdraw every consent for the project, also those for permissions that its files no longer have.

        A ``data/`` of another user that was trusted is not used any more.
        """
        remove_tree(self.folder)
        forget_adopted(self.root)

    def _reach(self, permission: Permission) -> dict[str, list[str]]:
        """Return how far the user has trusted a permission."""
        return _reach_in(self._of(permission).content() or {})

    def _about(self, toolset_id: str) -> Iterator[tuple[Consent, JsonObject]]:
        """Yield the consents to facts about a toolset, and what they contain."""
        for file in sorted(self.folder.glob("*.json")):
            consent = Consent(file, {"project": str(self.root)})
            try:
                content = consent.content() or {}
            except UnreadableConsentError:
                continue  # it permits nothing
            permits = content.get("permits")
            if isinstance(permits, dict) and permits.get("toolset") == toolset_id:
                yield consent, content

    def _of(self, permission: Permission) -> Consent:
        fact = _fact(self.project, permission)
        return Consent(self.folder / _file_name(permission.key), fact, permission.text)

    def _is_all_own(self, *, strict: bool) -> bool:
        if self.is_fetched:
            return False
        try:
            return self._origin().exists and is_all_own(self.root)
        except UnreadableConsentError:
            if strict:
                raise
            return False

    @property
    def was_own(self) -> bool:
        """Whether the files of the project counted as the user's own until its git repository got a remote."""
        try:
            return not self.is_fetched and self._origin().exists and has_remote(self.root)
        except UnreadableConsentError:
            return False

    def _origin(self) -> Consent:
        fact = {**self.project, "made_here": True}
        words = "this project was made on this machine"
        return Consent(self.folder / "made-here.json", fact, words)


def _fact(project: JsonObject, permission: Permission) -> JsonObject:
    return {**project, "permits": permission.fact}


def _beyond(
    permission: Permission, consent: Consent, names: set[str], *, strict: bool
) -> Permission | None:
    """Return the part of a permission that the user has not trusted; ``names`` are those of existing files."""
    try:
        content = consent.content() if consent.file.name in names else None
    except UnreadableConsentError:
        if strict:
            raise
        content = None
    return permission if content is None else permission.beyond(_reach_in(content))


def _reach_in(content: JsonObject) -> dict[str, list[str]]:
    """Return how far a consent with this content reaches."""
    reach = content.get("reach")
    if not isinstance(reach, dict):
        return {}
    return {name: limits for name, limits in reach.items() if isinstance(limits, list)}


def _file_name(key: str) -> str:
    """Return the name of the file with the consent for the permission with this key."""
    return f"{key.partition(':')[2]}.json"


def foreign_data() -> Permission:
    """Return the permission to use a ``data/`` that commands of this user did not make."""
    words = (
        "data/: show its chats, approvals and tokens as yours, though you did not make them here"
    )
    return Permission({"data": "foreign"}, words)


def trust_folder(folder: Path, reason: str | None = None) -> None:
    """Trust all projects in a folder and below it, also those that do not exist yet.

    The ``reason`` that a script stated is a line above the folder, which begins with ``#``.

    Raises:
        CovaltError: if its path has a line break, which the file of folders cannot store.
    """
    path = str(folder.resolve())
    if "\n" in path:
        raise CovaltError(f"the path {path!r} has a line break", code="invalid_folder")
    if path in _trusted_folders():
        return
    file = user_folder() / _TRUSTED_FOLDERS
    text = read_private(file, UnreadableConsentError) or ""
    # As JSON in ASCII, because a line break in the reason would begin a line that is another folder.
    note = f"# {timestamps.now()} {json.dumps(reason)}\n" if reason else ""
    begun = "\n" if text and not text.endswith("\n") else ""
    atomic_write.replace(file, f"{text}{begun}{note}{path}\n", private=True)


def _trusted_folders() -> list[str]:
    """Return the trusted folders; paths may have all line ends but a line feed."""
    text = read_private(user_folder() / _TRUSTED_FOLDERS, UnreadableConsentError) or ""
    return [line for line in text.split("\n") if line.startswith("/")]
