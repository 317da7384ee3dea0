"""The order of a chat's history: newest first, and no commit before its descendants."""

import random
from collections.abc import Iterable
from pathlib import Path

from covalt_git.index.index import Index
from covalt_git.models.chats import WorkspaceManifest
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces.chat import ChatStore
from tests.workspaces.stores import branch_off, checkout, git, put, save


def newest_first(manifests: Iterable[WorkspaceManifest]) -> list[WorkspaceManifest]:
    """Return manifests, of which none has a missing parent, in the order of lists.

    A manifest's place is its time, or a parent's where that is later; then how far it is from the
    first; then its id.
    """
    found = {manifest.id: manifest for manifest in manifests}
    places: dict[str, tuple[str, int, str]] = {}
    for start in found:
        waiting = [start]
        while waiting:
            manifest = found[waiting[-1]]
            missing = [oid for oid in manifest.parents if oid not in places]
            if missing:
                waiting.extend(missing)
                continue
            above = [places[oid] for oid in manifest.parents]
            # Without the Z a time of whole seconds sorts before the milliseconds that follow it.
            moments = [manifest.created_at.removesuffix("Z"), *(place[0] for place in above)]
            generation = 1 + max((place[1] for place in above), default=0)
            places[manifest.id] = (max(moments), generation, manifest.id)
            waiting.pop()
    return sorted(found.values(), key=lambda one: places[one.id], reverse=True)


def test_the_order_is_that_of_the_index(chat: ChatStore, tmp_path: Path) -> None:
    chance = random.Random(7)
    put(chat.workspace, {"a": ("file", b"0")})
    save(chat)
    for number in range(6):
        branch_off(chat, f"b{number}")
        for _ in range(chance.randrange(3)):
            put(chat.workspace, {"a": ("file", chance.randbytes(4))})
            save(chat)
        checkout(chat, chance.choice([branch.name for branch in chat.branches()]))
    store = chat.folder / "store.git"
    # A merge, and a commit whose clock is long before its parents'.
    merge = git(store, "commit-tree", "b1^{tree}", "-p", "b1", "-p", "b3", given=b"merge").strip()
    git(store, "update-ref", "refs/heads/merged", merge)
    text = b"tree %s\nparent %s\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nlate\n"
    tree = git(store, "rev-parse", "b2^{tree}").strip().encode()
    late = git(
        store, "hash-object", "-t", "commit", "-w", "--stdin", given=text % (tree, merge.encode())
    )
    git(store, "update-ref", "refs/heads/late", late.strip())
    ordered = [one.id for one in newest_first(map(chat.manifest, chat.reachable()))]

    with Index.open(tmp_path, WorkspaceConfig(), tmp_path / "index.db") as index:
        index.sync_chat(chat)
        listed = [row.id for row in index.manifests(chat.id, limit=500).rows]
        heads = [branch.manifest_id for branch in chat.branches()]
        lines = [index.manifests(chat.id, head=head, first_parents=True).rows for head in heads]
    assert ordered == listed
    assert [[row.id for row in line] for line in lines] == [
        [one.id for one in chat.log(head)] for head in heads
    ]
    assert ordered.index(late.strip()) < ordered.index(merge)
