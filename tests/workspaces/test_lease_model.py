"""Model of the lease and the call protocol: 3 nodes, 2 calls, any order of their steps, and a crash between any two.

Each node runs the real code in a thread of its own, which stops before and after each request to the server, and at the
steps of a call, until the machine lets it go on.  The server is a git store whose refs move by compare-and-swap.
"""

import contextlib
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import reachable
from covalt_git.git_store.server_repository import Move, PushRefusedError, ServerError
from covalt_git.git_store.store import GitStore
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.models.reported_refs import UNREAD
from covalt_git.workspaces import lease as leases
from covalt_git.workspaces import lease_holder, node_copy
from covalt_git.workspaces.chat import AboutChat, ChatStore, write_about, write_stored
from covalt_git.workspaces.lease import LOST, REF
from covalt_git.workspaces.node_copy import Agreed
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import REPEATS, follow_server, repeatable, writing
from tests.examples import examples
from tests.workspaces.stores import call_record, pending_call

NODES, CALLS = ("a", "b", "c"), ("call-1", "call-2")
START = datetime(2026, 1, 1, tzinfo=UTC)
LEASE_S = 60


class Crashed(BaseException):
    """The process of a node ends here."""


class Server:
    """A repository whose refs move by compare-and-swap, and what it has seen."""

    def __init__(self, folder: Path) -> None:
        self.store = GitStore.create(folder, durable=False)
        self.stale_writes: list[str] = []
        self.counters: list[int] = []

    def refs(self) -> dict[str, str]:
        return node_copy.own_refs(self.store)

    def push(self, node: str, source: GitStore, moves: Mapping[str, Move]) -> None:
        present = self.refs()
        moved = {ref: "stale" for ref, move in moves.items() if present.get(ref) != move.old}
        if moved:
            raise PushRefusedError("model", moved)
        before = node_copy.lease_of(self.store, present)
        copy_objects(source, self.store, [move.new for move in moves.values() if move.new])
        for ref, move in moves.items():
            assert self.store.swap_ref(ref, move.old, move.new)
        after = node_copy.lease_of(self.store, self.refs())
        assert before is not None
        assert after is not None
        if REF in moves:
            self.counters.append(after.counter)
        writes = [ref for ref in moves if ref != REF and not ref.startswith(LOST)]
        if writes and before.node not in {"", node}:
            self.stale_writes.append(f"{node} moved {writes} under the lease of {before.node!r}")


def copy_objects(source: GitStore, target: GitStore, oids: list[str]) -> None:
    for oid in reachable(source, oids):
        kind, content = source.read_object(oid)
        target._write(kind, content)
    target.flush()


class Node(threading.Thread):
    """A call that a node makes, step by step."""

    def __init__(self, world: "Nodes", name: str, call_id: str, *, looks: bool = True) -> None:
        super().__init__(daemon=True)
        self.looks = looks
        self.world, self.node, self.call_id = world, name, call_id
        self.may_go, self.has_stopped = threading.Semaphore(0), threading.Semaphore(0)
        self.crashes = self.is_over = self.loses_answer = self.renews = False
        self.problem: BaseException | None = None
        self.start()
        self.has_stopped.acquire()

    def run(self) -> None:
        try:
            self.step()
            self.world.make_call(self)
        except (Crashed, CovaltError):
            pass
        except BaseException as problem:  # noqa: BLE001 - the machine raises it
            self.problem = problem
        self.is_over = True
        self.has_stopped.release()

    def step(self) -> None:
        """Stop until the machine lets this node go on."""
        self.has_stopped.release()
        self.may_go.acquire()
        if self.crashes:
            raise Crashed

    def go_on(self) -> None:
        self.may_go.release()
        self.has_stopped.acquire()
        if self.problem is not None:
            raise self.problem

    # The repository of the chat, as this node reaches it.

    def refs(self) -> dict[str, str]:
        self.step()
        return self.world.server.refs()

    def fetch_objects(self, store: GitStore, refs: Mapping[str, str]) -> None:
        self.step()
        present = self.world.server.refs()
        copy_objects(
            self.world.server.store, store, [present[ref] for ref in refs if ref in present]
        )

    def push(
        self, store: GitStore, moves: Mapping[str, Move], *, known: Collection[str] = ()
    ) -> None:
        assert all(map(self.world.server.store.has, known))
        self.step()
        self.world.server.push(self.node, store, moves)
        loses, self.loses_answer = self.loses_answer, False
        self.step()
        if loses:
            raise ServerError("the connection broke after the server had accepted")

    # Its storage.

    lease_s = LEASE_S

    def repository(self, _: str) -> "Node":
        return self


@hypothesis.settings(max_examples=examples(10), stateful_step_count=40)
class Nodes(RuleBasedStateMachine):
    """Three nodes and one chat."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
        self.time = START
        self.skew = {"a": -15, "b": 0, "c": 15}
        self.effects: list[str] = []
        self.acknowledged: list[str] = []
        self.working: dict[str, Node] = {}
        self.server = Server(self.folder / "server.git")
        write_about(self.server.store, AboutChat(id="c1", created_at="2026-01-01T00:00:00Z"))
        lease = leases.first("refs/heads/main", "a")
        oid = write_stored(self.server.store, lease, lease.subject)
        assert self.server.store.swap_ref(REF, None, oid)
        for name in NODES:
            (self.folder / name).mkdir()
            with GitStore.create(self.folder / name / "store.git", durable=False) as store:
                refs = self.server.refs()
                copy_objects(self.server.store, store, [*refs.values()])
                for ref, value in refs.items():
                    if ref != REF:
                        assert store.swap_ref(ref, None, value)
                node_copy.write_agreed(store.path, Agreed(refs=refs, lease=lease))
        lease_holder.now = self.now

    def now(self) -> datetime:
        """Return the time of the node that asks, whose clock is wrong."""
        thread = threading.current_thread()
        node = thread.node if isinstance(thread, Node) else "b"
        return self.time + timedelta(seconds=self.skew[node])

    @contextlib.contextmanager
    def chat(self, node: Node) -> Iterator[ChatStore]:
        chat = ChatStore("c1", self.folder / node.node, WorkspaceConfig(durability="fast"))
        chat.storage = node  # type: ignore[assignment]
        node.name = node.node
        with chat:
            yield chat

    def make_call(self, node: Node) -> None:
        """Make a call as the engine does: at most once, noted as running before its effect."""
        with self.chat(node) as chat:
            follow_server(chat, None if node.looks else UNREAD)
            for repeats in [True] * REPEATS + [False]:
                with repeatable(), writing(chat, timeout_s=0, repeats=repeats) as writer:
                    self.make_in(chat, writer, node)
                    node.step()
                    break
            else:
                raise AssertionError("a call was repeated after the lease was taken first")
            self.acknowledged.append(node.call_id)

    def make_in(self, chat: ChatStore, writer: Writer, node: Node) -> None:
        node.step()
        writer.commit_changes()
        if node.call_id in recorded(chat):
            return
        call = pending_call(chat, id=node.call_id)
        self.renew(writer, node)
        writer.put_call(call)
        node.step()
        self.effects.append(node.call_id)
        (chat.workspace / node.call_id).write_text(node.node)
        node.step()
        self.renew(writer, node)
        record = call_record()
        writer.finish_call(call, record, snapshot=writer.scan())

    @staticmethod
    def renew(writer: Writer, node: Node) -> None:
        """Renew the lease if the machine says so, as the thread of the writer does from time to time."""
        if node.renews:
            assert writer.holder is not None
            node.renews = False
            writer.holder.renew()

    @rule(node=st.sampled_from(NODES), call_id=st.sampled_from(CALLS), looks=st.booleans())
    def start(self, node: str, call_id: str, *, looks: bool) -> None:
        if node not in self.working:
            self.working[node] = Node(self, node, call_id, looks=looks)

    @rule(node=st.sampled_from(NODES), steps=st.integers(1, 12))
    def go_on(self, node: str, steps: int) -> None:
        for _ in range(steps):
            if (working := self.working.get(node)) is not None:
                working.go_on()
                if working.is_over:
                    del self.working[node]

    @rule(node=st.sampled_from(NODES))
    def crash(self, node: str) -> None:
        if (working := self.working.get(node)) is not None:
            working.crashes = True
            self.go_on(node, 1)

    @rule(node=st.sampled_from(NODES))
    def lose_an_answer(self, node: str) -> None:
        if (working := self.working.get(node)) is not None:
            working.loses_answer = True

    @rule(node=st.sampled_from(NODES))
    def renew_the_lease(self, node: str) -> None:
        if (working := self.working.get(node)) is not None:
            working.renews = True

    @rule(seconds=st.sampled_from([10, LEASE_S, 3 * LEASE_S]))
    def wait(self, seconds: int) -> None:
        self.time += timedelta(seconds=seconds)

    @invariant()
    def no_call_runs_twice(self) -> None:
        assert all(count == 1 for count in Counter(self.effects).values()), self.effects

    @invariant()
    def only_the_holder_writes(self) -> None:
        assert self.server.stale_writes == []
        assert self.server.counters == sorted(set(self.server.counters))

    @invariant()
    def what_was_acknowledged_stays(self) -> None:
        with_calls = self.on_server()
        assert set(self.acknowledged) <= with_calls.keys()
        assert all(count == 1 for count in with_calls.values())

    def on_server(self) -> Counter[str]:
        """Return how often each call is recorded on the main branch of the server."""
        at = self.server.refs().get("refs/heads/main")
        calls: Counter[str] = Counter()
        while at is not None:
            commit = self.server.store.read_commit(at)
            calls.update(call_id for call_id in CALLS if f"Source-Ref: {call_id}" in commit.message)
            at = next(iter(commit.parents), None)
        return calls

    def teardown(self) -> None:
        """After all crashes, every node can write again, and every call that had an effect has a record."""
        for node in [*self.working]:
            while node in self.working:
                self.crash(node)
        for name in NODES:
            self.wait(10 * LEASE_S)
            self.start(name, "call-1", looks=True)
            while name in self.working:
                self.go_on(name, 1)
        self.no_call_runs_twice()
        self.only_the_holder_writes()
        self.what_was_acknowledged_stays()
        recorded_calls = self.on_server()
        assert set(self.effects) <= recorded_calls.keys()
        assert recorded_calls["call-1"] == 1
        assert leases.RUNNING not in self.server.refs()
        self.server.store.close()
        shutil.rmtree(self.folder)


def recorded(chat: ChatStore) -> set[str]:
    return {str(manifest.source_ref) for manifest in chat.log(chat.head())}


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    now = lease_holder.now
    # The machine decides when a lease is renewed, and no thread in the background.
    monkeypatch.setattr(lease_holder, "ASSUMED_S", 3600.0)
    yield
    lease_holder.now = now


TestNodes = Nodes.TestCase
