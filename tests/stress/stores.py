"""What chats must be like whatever happened to them."""

from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.stress.figures import Proof
from tests.workspaces.stores import fsck, git, layout_of, tree_of


def reachable(chat: ChatStore) -> set[str]:
    """Return the commits that some ref reaches, as stock git finds them."""
    return set(git(chat.folder / "store.git", "rev-list", "--all").split())


def check_sound(proof: Proof, chat: ChatStore, after: str) -> None:
    """Check that the next command works, fsck is clean, and the folder is what its branch says."""
    with writing(chat, timeout_s=20) as writer:
        writer.commit_changes()
    store = chat.folder / "store.git"
    said = fsck(chat)
    proof.check(not said, f"{after}, git fsck says: {said}")
    left = [*store.rglob("*.lock"), *store.rglob("tmp_*"), *chat.folder.glob("switch.json")]
    proof.check(not left, f"{after}, these are left: {left}")
    head = chat.head()
    listed = set() if head is None else set(tree_of(chat, head))
    files = layout_of(chat.workspace).items()
    other = sorted(listed ^ {path for path, (kind, _) in files if kind != "folder"})
    proof.check(not other, f"{after}, the folder is not what its branch says: {other}")
