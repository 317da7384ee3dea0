"""A chat that is built with git commands alone, as ``docs/reference/chat-store.md`` describes it, is a chat."""

import re
import subprocess
from pathlib import Path

from tests.workspaces.stores import fsck, git, open_chats, save, upload

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/chat-store.md"


def block(start: str) -> str:
    """Return the code block of the page that begins with ``start``."""
    blocks: list[str] = re.findall(r"```\w*\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (found,) = [one for one in blocks if one.startswith(start)]
    return found


def test_chat_made_with_git_from_the_page_is_opened_and_continued(tmp_path: Path) -> None:
    folder = tmp_path / "chats/c1"
    store = folder / "store.git"
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(store)], check=True)
    (store / "config").write_text(block("[core]"))
    about = git(store, "hash-object", "-w", "--stdin", given=block("chat: c1").encode()).strip()
    git(store, "update-ref", "refs/covalt/chat", about)
    git(store, "mktree", given=b"")
    content = block("tree 4b825dc").encode()
    first = git(store, "hash-object", "-t", "commit", "-w", "--stdin", given=content).strip()
    git(store, "update-ref", "refs/heads/main", first)

    with open_chats(tmp_path).open("c1") as chat:
        manifest = chat.manifest(str(chat.head()))
        assert chat.card().title == "Demo"
        assert (manifest.source, manifest.record.by) == ("edit", "local")
        assert manifest.record.workspace.empty_folders == ("notes",)
        upload(chat, "a.txt", b"a")
        assert (chat.workspace / "notes").is_dir()
        assert [one.source for one in chat.log(chat.head())] == ["user_upload", "edit"]
        assert save(chat) == chat.head()
        assert fsck(chat) == ""
