"""What a git server must be able to do, tried out with refs that are removed afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import CommitObject
from covalt_git.git_store.server_repository import Move, PushRefusedError, ServerError
from covalt_git.git_store.store import GitStore
from covalt_git.names import new_id
from covalt_git.workspaces.records import COMMITTER
from covalt_git.workspaces.storage import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.git_store.server_repository import ServerRepository
    from covalt_git.workspaces.server_storage import ServerStorage


PROJECT_GIT = "/git/"
"""Beginning of the paths at which the server of a project has its own chats."""


class ServerFinding(NamedTuple):
    """One thing that a server must be able to do; ``lacks`` is empty if it is."""

    what: str
    lacks: str = ""


def findings(storage: ServerStorage) -> Iterator[ServerFinding]:
    """Try the server of a storage, in its list of chats; end after what everything else needs.

    Raises:
        NotTrustedError: if the user of this machine has not trusted the server.
        CovaltError: if the password is not set.
    """
    repository = storage.repository(REGISTRY)
    with (
        tempfile.TemporaryDirectory(prefix="covalt-storage-") as folder,
        GitStore.create(Path(folder) / "any.git", durable=False) as store,
    ):
        try:
            storage.prepare(store)
        except (ServerError, PushRefusedError) as error:
            lacks = _sentence(error)
            if urlsplit(repository.url).path.startswith(PROJECT_GIT):
                lacks += (
                    "; /git of covalt-git serve is for people and accepts branches of its own chats only:"
                    " use covalt-git storage serve"
                )
            yield ServerFinding("it has the list of chats", lacks)
            return
        yield ServerFinding("it has the list of chats")
        yield from _tried(repository, store, Path(folder))


def _tried(repository: ServerRepository, store: GitStore, folder: Path) -> Iterator[ServerFinding]:
    name = f"check-{new_id()}"
    note, branch = f"refs/covalt/{name}", f"refs/heads/{name}"
    commits = [_commit(store, f"{name} {number}") for number in range(2)]
    blob = store.write_blob(name.encode())
    what = "it moves several refs together or not at all, also outside of refs/heads"
    try:
        repository.push(store, {note: Move(None, blob), branch: Move(None, commits[0])})
    except (PushRefusedError, ServerError) as error:
        yield ServerFinding(what, _sentence(error))
        return
    yield ServerFinding(what)

    what = "it shows and sends the refs below refs/covalt"
    present = repository.refs()
    lacks = ""
    if present.get(note) != blob:
        lacks = "it hides them: remove refs/covalt from transfer.hideRefs and uploadpack.hideRefs"
    else:
        try:
            with GitStore.create(folder / "other.git", durable=False) as other:
                repository.fetch(other, [note, branch])
        except CovaltError as error:
            lacks = _sentence(error)
    yield ServerFinding(what, lacks)

    what = "it refuses a push whose expected values are wrong, and moves nothing"
    lacks = "it accepted one"
    try:
        repository.push(
            store, {branch: Move(commits[0], commits[1]), note: Move(commits[0], commits[1])}
        )
    except (PushRefusedError, ServerError):
        lacks = "" if repository.refs() == present else "it refused one, and moved a ref"
    yield ServerFinding(what, lacks)

    what = "it moves a branch to another history"
    at, lacks = commits[0], ""
    try:
        repository.push(store, {branch: Move(commits[0], commits[1])})
        at = commits[1]
    except (PushRefusedError, ServerError) as error:
        lacks = f"{_sentence(error)}; receive.denyNonFastForwards and protected branches do this"
    yield ServerFinding(what, lacks)

    what = "it deletes refs"
    lacks = ""
    try:
        repository.push(store, {branch: Move(at, None), note: Move(blob, None)})
    except (PushRefusedError, ServerError) as error:
        lacks = f"{_sentence(error)}; receive.denyDeletes and protected branches do this"
    yield ServerFinding(what, lacks)


def _commit(store: GitStore, message: str) -> str:
    return store.write_commit(
        CommitObject(
            tree=store.write_tree([]),
            parents=(),
            author=COMMITTER,
            committer=COMMITTER,
            time=0,
            message=f"{message}\n",
        )
    )


def _sentence(error: CovaltError) -> str:
    """Return why a push failed, with the setting of the server that usually is the reason."""
    reasons = error.message
    if isinstance(error, PushRefusedError):
        reasons = " ".join(error.reasons.values())
    if "hidden ref" in reasons:
        return "it refuses refs below refs/covalt: remove them from transfer.hideRefs and receive.hideRefs"
    if "hook declined" in reasons:
        return f"a hook of the server refuses the push: {error.message}"
    if "support atomic" in reasons:
        return "it does not support atomic pushes: set receive.advertiseAtomic to true, or use another server"
    return error.message
