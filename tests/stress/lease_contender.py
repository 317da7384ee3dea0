"""One node of ``tests.stress.leases``: it writes to the chat c1 again and again, until it is told to end."""

import random
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from covalt_git.errors import CovaltError
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces import lease, lease_holder
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import REPEATS, repeatable, writing
from tests.workspaces.nodes import settings


def main(folder: Path, name: str, url: str, lease_s: int, skew_s: float) -> None:
    """Write commits; each acknowledged one is a line of the file ``acknowledged``."""
    lease.SKEW_S = 2  # type: ignore[misc]  # so that a run takes minutes, with clocks that differ by less
    lease_holder.now = lambda: datetime.now(UTC) + timedelta(seconds=skew_s)
    root = folder / name
    config = WorkspaceConfig(durability="fast")
    chats = Chats(
        root / "data" / "chats", config.with_git_storage(settings(root, url, lease_s=lease_s))
    )
    chance, step = random.Random(name), 0
    with (root / "acknowledged").open("a") as out, (root / "errors").open("a") as errors:
        while not (folder / "end").exists():
            step += 1
            try:
                with chats.open("c1") as chat:
                    for repeats in [True] * REPEATS + [False]:
                        with repeatable():
                            with writing(chat, by=name, timeout_s=20, repeats=repeats) as writer:
                                (chat.workspace / name).write_text(f"{step}\n")
                                time.sleep(chance.choice([0, 0, 0, 0.3]))
                                head = writer.commit_changes()
                            print(head, file=out, flush=True)
                            break
            except CovaltError as error:
                print(error.code, error.message, file=errors, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
