"""32 processes commit to one chat at the same time."""

from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from covalt_git.models.commit_record import MessageRecord
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from tests.stress.figures import Proof
from tests.stress.forks import Forked, fork
from tests.stress.stores import check_sound, reachable
from tests.workspaces.stores import open_chats, scratch

PROMISE = "Concurrent writers of a chat all get their turn, and no commit is lost."
COUNT = 10_000
WRITERS = 32


def prove(proof: Proof, count: int, seed: int) -> None:  # noqa: ARG001 - every proof has one
    """Make ``count`` commits by 32 processes that all want to write all the time."""
    with scratch() as folder:
        chats = open_chats(folder, WorkspaceConfig(durability="fast"))
        chats.new("c1").store.close()
        each = -(-count // WRITERS)
        writers = [_start(chats, folder / f"said-{number}", each) for number in range(WRITERS)]
        with ExitStack() as ends:  # of each of them, even where one fails
            for one in writers:
                ends.callback(one.end, proof)
        said = [set((folder / f"said-{number}").read_text().split()) for number in range(WRITERS)]
        acknowledged = set().union(*said)
        with chats.open("c1") as chat:
            check_sound(proof, chat, "after all commits")
            found = reachable(chat)
            proof.check(acknowledged <= found, f"lost: {len(acknowledged - found)}")
            by = [one.record.by for one in chat.log(chat.head())]
            line, turns = len(by), sum(one != other for one, other in pairwise(by))
            contents = {path.name: path.read_text() for path in chat.workspace.iterdir()}
        proof.check(line == len(acknowledged) == each * WRITERS, f"{line} in one line")
        expected = {f"w{number}": str(each - 1) for number in range(WRITERS)}
        proof.check(contents == expected, "some writer's last file is not there")
    # One after another would be a turn each.
    proof.check(
        turns >= min(2 * WRITERS, line - 1), f"only {turns} times was it the turn of another"
    )
    proof.note("processes", WRITERS)
    proof.note("commits", line)
    proof.note("commits after one of another process", turns)
    proof.note("lost", 0)


def _start(chats: Chats, said: Path, count: int) -> Forked:
    number = int(said.name.rpartition("-")[2])

    def write() -> None:
        with said.open("w") as out, chats.open("c1") as chat:
            for step in range(count):
                with writing(chat, timeout_s=600) as writer:
                    (chat.workspace / f"w{number}").write_text(str(step))
                    message = MessageRecord(role="user", text=f"{number}.{step}")
                    made = writer.commit(
                        "message", writer.scan(), subject="said", by=f"w{number}", message=message
                    )
                out.write(f"{made}\n")

    return fork(write, said.with_suffix(".error"))
