"""Every commit of this repository, brought into a workspace and back."""

import io
import subprocess
import tarfile
from pathlib import Path

from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces import branches
from covalt_git.workspaces.writing import writing
from tests.stress.figures import Proof
from tests.workspaces.stores import clear, layout_of, open_chats, scratch

REPOSITORY = Path(__file__).parents[2]
PROMISE = (
    "Each commit of a real repository gets the tree id that git gives it, and a checkout has "
    "the same files."
)
COUNT = 100


def prove(proof: Proof, count: int, seed: int) -> None:  # noqa: ARG001 - every proof has one
    """Try the newest ``count`` commits that this checkout has."""
    listed = _git("rev-list", "--reverse", f"--max-count={count}", "HEAD").decode().split()
    proof.check(len(listed) > 1, "this checkout has one commit only, with none to come back from")
    files = changed = 0
    with scratch() as folder:
        chats = open_chats(folder, WorkspaceConfig(durability="fast", ignore=()))
        chats.new("c1").store.close()
        with chats.open("c1") as chat:
            for number, commit in enumerate(listed, 1):
                clear(chat.workspace)
                archive = io.BytesIO(_git("archive", "--format=tar", commit))
                with tarfile.open(fileobj=archive) as tar:
                    # Python before 3.11.4 has no argument for it.
                    tar.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
                    tar.extractall(chat.workspace)
                before = layout_of(chat.workspace)
                with writing(chat) as writer:
                    tree = writer.scan().tree
                    writer.commit_changes()
                    if not chat.store.read_ref("refs/heads/empty"):
                        branches.create(writer, "empty", chat.head())
                    writer.checkout("empty")
                    changed += layout_of(chat.workspace) != before
                    writer.checkout("main")
                wanted = _git("rev-parse", f"{commit}^{{tree}}").decode().strip()
                proof.check(tree == wanted, f"{commit[:12]} is stored as {tree}, not as {wanted}")
                proof.check(
                    layout_of(chat.workspace) == before, f"{commit[:12]} comes back otherwise"
                )
                files += len(before)
                proof.progress(number, len(listed))
    # The others come back from the first.
    proof.check(changed * 2 > len(listed) - 1, f"only {changed} checkouts changed any file")
    proof.note("commits", len(listed))
    proof.note("files", files)
    proof.note("checkouts of an empty branch that changed the folder", changed)
    proof.note("differences", 0)


def _git(*args: str) -> bytes:
    return subprocess.run(
        ["git", "-C", str(REPOSITORY), *args], check=True, capture_output=True
    ).stdout
