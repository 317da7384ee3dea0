"""Import of a chat: from a bundle of covalt-git or stock git, or from a git repository.

The received pack stays in a quarantine until all of it is inspected (:mod:`.admission`), and only objects
that the branches reach are stored.  The chat appears complete or not at all; a failed import leaves nothing.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import IO, TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.git_store.bundles import read_bundle_header
from covalt_git.git_store.graph import CommitGraph, reachable
from covalt_git.git_store.incoming import PackLimits, Quarantine
from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.git_store.store import GitStore
from covalt_git.models.commit_record import WorkspaceNote
from covalt_git.names import BadNameError, check_branch
from covalt_git.transfers.admission import admit
from covalt_git.workspaces import commits, records
from covalt_git.workspaces.chat import ABOUT, HEADS, AboutChat, existing, read_stored
from covalt_git.workspaces.commit_key import FOREIGN_COMMITS, add_statement, signing_key
from covalt_git.workspaces.rules import why_not_stored
from covalt_git.workspaces.trees import changed_paths

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.transfers.admission import Admitted
    from covalt_git.workspaces.registry import Chats
    from covalt_git.workspaces.writer import Writer

_LIMITS = partial(PackLimits, pack=16 << 30, objects=2_000_000, other=64 << 20, together=16 << 30)
_LONGEST_TITLE = 500
_PART = 1 << 18


class ImportedChat(NamedTuple):
    """An imported chat.

    Attributes:
        chat_id: its id in this project.
        was: the id of the exported chat; None if a git repository was imported.
        branches: the names of its branches.
        commits: the number of its commits.
        unportable: the paths that some system cannot check out.
        left_out: the refs that a chat cannot have, such as tags.
    """

    chat_id: str
    was: str | None
    branches: tuple[str, ...]
    commits: int
    unportable: tuple[WorkspaceNote, ...]
    left_out: tuple[str, ...]


class _Source(NamedTuple):
    """Source of an import: its hash, its refs, the ref of HEAD, and a pack with the objects."""

    object_format: str
    refs: dict[str, str]
    active: str | None
    pack: Iterable[bytes]


def import_path(
    chats: Chats, path: Path, *, chat_id: str | None = None, title: str | None = None
) -> ImportedChat:
    """Import a bundle or a git repository at ``path`` as a new chat, which has no workspace yet.

    Without an id as argument, the chat keeps its id if that is available.

    Raises:
        CovaltError: if it is damaged or has objects that are not admitted; then no file of it stays.
    """
    if path.is_dir():
        return _import_repository(chats, path, chat_id, title)
    try:
        with path.open("rb") as file:
            return import_bundle(chats, file, chat_id=chat_id, title=title)
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise CovaltError(f"{str(path)!r} cannot be imported: {reason}") from None


def import_bundle(
    chats: Chats, file: IO[bytes], *, chat_id: str | None = None, title: str | None = None
) -> ImportedChat:
    """Import a bundle from an open file, as :func:`import_path`.

    Raises:
        BadGitBundleError: when the file is not a bundle, or has only a part of a history.
        BadPackError: when its pack is damaged or too large.
        NotAdmittedError: with the paths and commits that are not admitted.
    """
    object_format, refs = read_bundle_header(file)
    source = _Source(object_format, refs, None, iter(partial(file.read, _PART), b""))
    return _bring_in(chats, source, chat_id, title)


def _import_repository(
    chats: Chats, path: Path, chat_id: str | None, title: str | None
) -> ImportedChat:
    git_folder = path / ".git" if (path / ".git").exists() else path
    if git_folder.is_file():
        raise CovaltError(
            f"{str(path)!r} is a linked working tree, or a submodule",
            hint=f"import its repository: git -C {path} rev-parse --git-common-dir",
        )
    # The reader takes the parents of its first commits for missing, so the error would be about a damaged store.
    if (git_folder / "shallow").exists():
        raise CovaltError(
            f"{str(path)!r} is a shallow clone: it has only a part of its history",
            hint=f"git -C {path} fetch --unshallow",
        )
    with GitStore(git_folder) as store:
        refs = store.refs(HEADS) | store.refs("refs/tags/") | existing(store, ABOUT, records.REF)
        active = None
        with contextlib.suppress(BrokenStoreError):  # a detached HEAD
            active = store.head()
        objects = reachable(store, (oid for ref, oid in refs.items() if _is_taken(ref)))
        pack = store.pack(sorted(objects))
        source = _Source(store.object_format, refs, active, pack)
        return _bring_in(chats, source, chat_id, title)


def _bring_in(
    chats: Chats, source: _Source, chat_id: str | None, title: str | None
) -> ImportedChat:
    heads = _heads(source)
    if chat_id is not None:
        chats.check_free(chat_id)
    with chats.creating(source.object_format) as store:
        admitted, description = _receive(store, source, heads, chats.config)
        for name, oid in heads.items():
            store.swap_ref(HEADS + name, None, oid)
        store.set_head(HEADS + _active(source, heads))
        about = description or AboutChat(id="", created_at=commits.now())
        about = about if title is None else about.model_copy(update={"title": title})
        was = None if description is None else description.id
        key = signing_key(chats.config) if admitted.lookalikes else None
        final = chats.place(
            store,
            about,
            wanted=chat_id,
            preferred=was,
            finish=lambda own_id: add_statement(
                store, key, own_id, FOREIGN_COMMITS, admitted.lookalikes
            ),
        )
    return ImportedChat(
        chat_id=final,
        was=was,
        branches=tuple(sorted(heads)),
        commits=len(admitted.commits),
        unportable=admitted.unportable,
        left_out=tuple(ref for ref in sorted(source.refs) if not _is_taken(ref)),
    )


def _receive(
    store: GitStore, source: _Source, heads: dict[str, str], config: WorkspaceConfig
) -> tuple[Admitted, AboutChat | None]:
    """Inspect the pack, and store what the branches and their records need of it; return the chat's description.

    The objects are fsynced when the chat gets its final place.
    """
    limits = _LIMITS(blob=config.max_file_mb << 20)
    with Quarantine.opened(store, store.path.parent, limits) as quarantine:
        quarantine.receive(source.pack)
        admitted = admit(CommitGraph(quarantine), heads.values(), config=config)
        try:
            about = _about(quarantine, source.refs.get(ABOUT))
            needed = records.needed(quarantine, source.refs.get(records.REF), heads.values())
        except BrokenStoreError:
            raise CovaltError(
                "the chat's description or its records are incomplete or damaged",
                hint=f"leave them out: git bundle create FILE --branches, without {ABOUT}",
            ) from None
        quarantine.adopt(admitted.objects.union(needed.values()), durable=False)
    # Before a ref leads to them: anyone can write a message that looks like a record
    # (tests/security/test_foreign_commits.py).
    commits.ForeignCommits(store).add(admitted.lookalikes)
    newest = max(store.read_commit(oid).time for oid in heads.values())
    store.swap_ref(records.REF, None, records.write(store, needed, newest))
    return admitted, about


def _about(reader: ObjectReader, oid: str | None) -> AboutChat | None:
    """Return the description of the chat; None for a git repository."""
    if oid is None:
        return None
    about = read_stored(reader, oid, AboutChat)
    # An agent with that name in this project is another agent.
    return about.model_copy(update={"title": about.title[:_LONGEST_TITLE], "made_by": None})


def _active(source: _Source, heads: dict[str, str]) -> str:
    """Return the branch to check out."""
    name = (source.active or "").removeprefix(HEADS)
    if name in heads:
        return name
    names = [name for name, oid in heads.items() if oid == source.refs.get("HEAD")] or [*heads]
    return "main" if "main" in names else min(names)


def left_out(writer: Writer) -> tuple[WorkspaceNote, ...]:
    """Return the files of the active branch that the next commit will not have, such as ignored ones.

    They stay in the history and in the workspace.
    """
    chat = writer.chat
    paths = changed_paths(chat.store, chat.state(chat.head()).tree, writer.scan().tree)
    reasons = ((path, why_not_stored(path, b"", chat.config)) for path in paths)
    return tuple(WorkspaceNote(path=path, reason=reason) for path, reason in reasons if reason)


def _heads(source: _Source) -> dict[str, str]:
    """Return the branches of a source.

    Raises:
        CovaltError: if it has no branch, or a branch with a name that is invalid in a chat.
    """
    refs = source.refs.items()
    heads = {ref.removeprefix(HEADS): oid for ref, oid in refs if ref.startswith(HEADS)}
    if not heads and "HEAD" in source.refs:
        heads = {"main": source.refs["HEAD"]}
    if not heads:
        raise CovaltError("it has no branch", hint="git bundle create FILE --all, or commit first")
    for name in heads:
        try:
            check_branch(name)
        except BadNameError as error:
            raise CovaltError(error.message, hint=f"git branch -m {name} NAME") from None
    return heads


def _is_taken(ref: str) -> bool:
    return ref.startswith(HEADS) or ref in {"HEAD", ABOUT, records.REF}
