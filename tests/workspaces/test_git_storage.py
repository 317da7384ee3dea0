"""Chats on a git server: two nodes see the same chats, and only the holder of the lease writes."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from covalt_git.calls.approvals import find_approval
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.git_store.server_repository import PushRefusedError, ServerError, ServerRepository
from covalt_git.names import new_id
from covalt_git.workspaces import branches, migration, node_copy, server_check
from covalt_git.workspaces.lease import RUNNING, SKEW_S
from covalt_git.workspaces.lock import ChatBusyError, LeaseLostError
from covalt_git.workspaces.registry import ChatExistsError, Chats
from covalt_git.workspaces.server_storage import ServerStorage
from covalt_git.workspaces.storage import REGISTRY
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import recover_calls, writing
from tests.git_http_backend import http_backend
from tests.workspaces.nodes import (
    LATER,
    LEASE_S,
    holder,
    node,
    on_files,
    prepare,
    server_git,
    taken,
    two_nodes,
)
from tests.workspaces.stores import approval_of, fsck, git, pending_call, run_git, upload
from tests.wsgi_server import listening


@pytest.fixture
def nodes() -> Iterator[tuple[Chats, Chats]]:
    with two_nodes() as pair:
        yield pair


def test_what_one_node_writes_another_reads_and_continues(nodes: tuple[Chats, Chats]) -> None:
    a, b = nodes
    with a.new("c1", title="Demo") as chat:
        upload(chat, "x.txt", b"1")

    assert b.ids() == ["c1"]
    with b.open("c1") as chat:
        assert chat.card().title == "Demo"
        assert chat.read_file(chat.head(), "x.txt") == b"1"
        upload(chat, "y.txt", b"2")
    with a.open("c1") as chat:
        assert sorted(chat.files(chat.head())) == ["x.txt", "y.txt"]
        # The workspace of this node follows too.
        assert (chat.workspace / "y.txt").read_bytes() == b"2"
        assert fsck(chat) == ""
    assert server_git(a, "c1", "fsck", "--strict", "--no-dangling") == ""


def test_a_reader_follows_although_a_ref_is_removed_before_it_is_fetched(
    nodes: tuple[Chats, Chats], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = nodes
    a.new("c1").close()
    b.open("c1").close()
    with a.open("c1") as chat:
        upload(chat, "x.txt", b"1")
    listed = ServerRepository.refs

    def call_that_ends(repository: ServerRepository) -> dict[str, str]:
        store = Path(repository.url.removeprefix("file://"))
        running = git(store, "hash-object", "-w", "--stdin", given=b"a call that runs").strip()
        git(store, "update-ref", RUNNING, running)
        refs = listed(repository)
        git(store, "update-ref", "-d", RUNNING)
        monkeypatch.setattr(ServerRepository, "refs", listed)
        return refs

    # The running call of another node ends between the list of refs and the fetch of this node.
    monkeypatch.setattr(ServerRepository, "refs", call_that_ends)
    with b.open("c1") as chat:
        assert list(chat.files(chat.head())) == ["x.txt"]


def test_an_approval_is_found_without_a_request_for_each_chat(
    nodes: tuple[Chats, Chats], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = nodes
    for chat_id in ("c1", "c2", "c3"):
        a.new(chat_id).close()
    with a.open("c2") as chat, writing(chat) as writer:
        call = pending_call(chat, status="pending", execution_id=new_id())
        approval = approval_of(call)
        writer.put_call(call)
        writer.put_approval(approval)
    requested: list[str] = []
    listed = ServerRepository.refs

    def refs(repository: ServerRepository) -> dict[str, str]:
        requested.append(repository.url.rpartition("/")[2])
        return listed(repository)

    monkeypatch.setattr(ServerRepository, "refs", refs)
    assert find_approval(a, approval.execution_id) == approval
    assert requested == ["c2.git"]
    # Another node has no copy of the chat yet.
    assert find_approval(b, approval.execution_id) == approval
    assert "c3.git" not in requested
    assert find_approval(b, new_id()) is None


def test_a_node_waits_while_another_has_the_lease_and_readers_do_not(
    nodes: tuple[Chats, Chats],
) -> None:
    a, b = nodes
    a.new("c1").close()
    with a.open("c1") as chat, writing(chat), b.open("c1") as other:
        assert other.branches()
        with pytest.raises(ChatBusyError, match="the node a is writing"):
            holder(other).take(Writer(other, "local"))
        # A clock that is 30 s fast takes nothing away, even at the end of the lease.
        almost = timedelta(seconds=LEASE_S + SKEW_S - 1)
        with pytest.raises(ChatBusyError, match="the node a is writing"):
            holder(other, later=almost).take(Writer(other, "local"))
    with b.open("c1") as other, writing(other, timeout_s=0):
        pass


def test_a_paused_holder_pushes_nothing_and_its_work_becomes_a_lost_branch(
    nodes: tuple[Chats, Chats],
) -> None:
    a, b = nodes
    a.new("c1").close()
    with a.open("c1") as paused:
        writer, lease = taken(paused)
        paused.workspace.mkdir(exist_ok=True)
        (paused.workspace / "a.txt").write_text("from a")
        # It is paused here for longer than its lease; the other node takes over.
        with b.open("c1") as other:
            second, second_lease = taken(other, later=LATER)
            other.workspace.mkdir(exist_ok=True)
            (other.workspace / "b.txt").write_text("from b")
            second.commit_changes()
            second_lease.push(release=True)

        written = writer.commit_changes()
        with pytest.raises(LeaseLostError):
            lease.push(release=True)
        lease.save_lost(writer)

        assert sorted(paused.files(paused.head())) == ["b.txt"]
        assert [*node_copy.lost_work(paused).values()] == [written]
    with b.open("c1") as other:
        ((ref, oid),) = node_copy.lost_work(other).items()
        assert ref == "refs/covalt/lost/a-1/main"
        assert other.read_file(oid, "a.txt") == b"from a"
        assert sorted(other.files(other.head())) == ["b.txt"]


def test_a_commit_of_a_killed_process_is_pushed_by_the_next_one(nodes: tuple[Chats, Chats]) -> None:
    a, b = nodes
    a.new("c1").close()
    with a.open("c1") as chat:
        writer, _ = taken(chat)
        chat.workspace.mkdir(exist_ok=True)
        (chat.workspace / "a.txt").write_text("from a")
        head = writer.commit_changes()  # and the process is killed before its push
    with a.open("c1") as chat:
        with writing(chat):
            pass
        assert chat.head() == head
        assert not node_copy.lost_work(chat)
    with b.open("c1") as other:
        assert other.head() == head


def test_a_call_of_a_dead_node_is_recorded_as_interrupted_once(nodes: tuple[Chats, Chats]) -> None:
    a, b = nodes
    a.new("c1").close()
    with a.open("c1") as chat:
        writer, _ = taken(chat)
        writer.put_call(pending_call(chat))  # and the node dies
        with b.open("c1") as other:
            assert [pending.status for pending in other.calls()] == ["running"]
            second, lease = taken(other, later=LATER)
            recover_calls(second, unclean=False, due="")
            lease.push(release=True)
            (manifest,) = other.log(other.head())
            assert manifest.record.call is not None
            assert manifest.record.call.error is not None
            assert manifest.record.call.error.code == "interrupted"
            assert other.calls() == []
    with a.open("c1") as chat:
        assert chat.calls() == []
        assert len([*chat.log(chat.head())]) == 1


def test_a_node_without_a_workspace_takes_no_file_away_when_it_records_the_call_of_a_dead_node(
    nodes: tuple[Chats, Chats],
) -> None:
    a, b = nodes
    with a.new("c1") as chat:
        upload(chat, "x.txt", b"1")
        writer, _ = taken(chat)
        writer.put_call(pending_call(chat))  # and the node dies
    with b.open("c1") as chat:
        second, lease = taken(chat, later=LATER)
        recover_calls(second, unclean=False, due="")
        lease.push(release=True)
        assert list(chat.files(chat.head())) == ["x.txt"]
        assert (chat.workspace / "x.txt").read_bytes() == b"1"


def test_the_active_branch_follows(nodes: tuple[Chats, Chats]) -> None:
    a, b = nodes
    with a.new("c1") as chat:
        upload(chat, "x.txt", b"1")
        with writing(chat) as writer:
            branches.create(writer, "try", chat.head())
            writer.checkout("try")
    with b.open("c1") as other:
        assert other.active_branch() == "try"
        upload(other, "y.txt", b"2")
        with writing(other) as writer:
            writer.checkout("main")
            branches.delete(writer, "try", force=True)
    with a.open("c1") as chat:
        assert chat.active_branch() == "main"
        assert [branch.name for branch in chat.branches()] == ["main"]
        assert not (chat.workspace / "y.txt").exists()


def test_an_id_is_given_once_and_a_deleted_chat_is_gone_everywhere(
    nodes: tuple[Chats, Chats],
) -> None:
    a, b = nodes
    a.new("c1").close()
    with pytest.raises(ChatExistsError):
        b.new("c1")
    with b.new() as chat:
        assert chat.id == "c2"
    with b.open("c1") as chat:
        upload(chat, "x.txt", b"1")

    b.delete("c1")

    assert a.ids() == b.ids() == ["c2"]
    with pytest.raises(UnknownNameError):
        a.open("c1")
    with b.new("c1") as chat:
        assert chat.head() is None
    with a.open("c1") as chat:
        assert chat.head() is None
        assert chat.branch_names() == ["main"]
    a.delete("c1")
    b.new("c1").close()


def test_a_server_that_lost_a_chat_takes_no_copy_away(nodes: tuple[Chats, Chats]) -> None:
    a, _ = nodes
    with a.new("c1") as chat:
        upload(chat, "x.txt", b"1")
        head = chat.head()
    for ref in server_git(a, "c1", "for-each-ref", "--format=%(refname)").split():
        server_git(a, "c1", "update-ref", "-d", ref)

    with pytest.raises(BrokenStoreError, match="this machine only"):
        a.open("c1")

    assert migration.to_server(a, "c1") == "migrated"
    with a.open("c1") as chat:
        assert chat.head() == head


def test_work_that_the_server_refuses_becomes_lost_and_the_chat_goes_on(
    nodes: tuple[Chats, Chats],
) -> None:
    a, b = nodes
    a.new("c1").close()
    hook = Path(server_git(a, "c1", "rev-parse", "--absolute-git-dir").strip()) / "hooks/update"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ncase "$1" in refs/heads/*) echo no >&2; exit 1;; esac\n')
    hook.chmod(0o755)
    with a.open("c1") as chat:
        with pytest.raises(PushRefusedError, match="refs/heads/main"):
            upload(chat, "x.txt", b"1")
        (lost,) = node_copy.lost_work(chat).values()
        assert chat.read_file(lost, "x.txt") == b"1"
        assert chat.head() is None
    hook.unlink()
    with b.open("c1") as chat:
        upload(chat, "y.txt", b"2")
        assert [*node_copy.lost_work(chat).values()] == [lost]


def test_a_server_over_http_gets_the_password_of_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, create = on_files(tmp_path / "server")
    with listening(http_backend(tmp_path / "server", user="bot", password="s3cret-of-bot")) as port:
        url = f"http://127.0.0.1:{port}/{{chat_id}}.git"
        login = {"username": "bot", "password": "${GIT_TOKEN}"}
        a, b = (node(tmp_path, name, url, create, **login) for name in "ab")
        monkeypatch.setenv("GIT_TOKEN", "s3cret-of-bot")
        prepare(a)
        with a.new("c1") as chat:
            upload(chat, "x.txt", b"1")
        with b.open("c1") as chat:
            upload(chat, "y.txt", b"2")
        with a.open("c1") as chat:
            assert sorted(chat.files(chat.head())) == ["x.txt", "y.txt"]

        monkeypatch.setenv("GIT_TOKEN", "another-secret")
        with pytest.raises(ServerError) as error, a.open("c1"):
            pass
        assert "the server refused the password of 'bot'" in str(error.value)
        assert "another-secret" not in str(error.value)
        monkeypatch.delenv("GIT_TOKEN")
        with pytest.raises(CovaltError, match="the secret GIT_TOKEN"), a.open("c1"):
            pass


@pytest.mark.rest
def test_a_server_that_does_not_answer_leaves_the_work_for_the_next_push(tmp_path: Path) -> None:
    _, create = on_files(tmp_path / "server")
    with listening(http_backend(tmp_path / "server")) as port:
        url = f"http://127.0.0.1:{port}/{{chat_id}}.git"
        a = node(tmp_path, "a", url, create)
        prepare(a)
        a.new("c1").close()
        with a.open("c1") as chat:
            writer, lease = taken(chat)
            chat.workspace.mkdir(exist_ok=True)
            (chat.workspace / "a.txt").write_text("from a")
            head = writer.commit_changes()
    with pytest.raises(ServerError):
        lease.push()
    # A server of ours starts without it.
    a.finish_left()
    with listening(http_backend(tmp_path / "server")) as port:
        a = node(tmp_path, "a", f"http://127.0.0.1:{port}/{{chat_id}}.git", create)
        with a.open("c1") as chat:
            with writing(chat):
                pass
            assert chat.head() == head
    main = (tmp_path / "server" / "c1.git" / "refs/heads/main").read_text()
    assert main.strip() == head


def test_work_that_only_this_machine_has_is_never_hidden(nodes: tuple[Chats, Chats]) -> None:
    a, _ = nodes
    local = Chats(a.folder, a.config.with_git_storage(None))
    local.new("old").close()

    assert a.ids() == ["old"]
    with pytest.raises(Exception, match="is on this machine only"):
        a.open("old")


@pytest.mark.rest
def test_the_lease_only_grows(nodes: tuple[Chats, Chats]) -> None:
    a, _ = nodes
    a.new("c1").close()
    counters = []
    for _ in range(3):
        with a.open("c1") as chat:
            with writing(chat):
                pass
            agreed = node_copy.agreed(chat.store.path)
            assert agreed is not None
            assert agreed.lease is not None
            assert agreed.lease.node == ""
            counters.append(agreed.lease.counter)
    assert counters == sorted(set(counters))
    with a.open("c1") as chat:
        assert holder(chat).node == "a"


@pytest.mark.rest
def test_chats_move_to_the_server_and_back_with_equal_object_ids(
    nodes: tuple[Chats, Chats],
) -> None:
    a, b = nodes
    local = Chats(a.folder, a.config.with_git_storage(None))
    with local.new("old") as chat:
        upload(chat, "x.txt", b"1")
        refs = node_copy.own_refs(chat.store)

    assert migration.to_server(a, "old") == "migrated"
    assert migration.to_server(a, "old") == "already there"
    with b.open("old") as chat:
        assert node_copy.own_refs(chat.store) == refs
        upload(chat, "y.txt", b"2")
        refs = node_copy.own_refs(chat.store)
    with pytest.raises(BrokenStoreError, match="is a copy of one on a git server"):
        local.open("old")

    assert migration.to_this_machine(a, "old") == "migrated"
    with local.open("old") as chat:
        assert node_copy.own_refs(chat.store) == refs
        assert (chat.workspace / "y.txt").read_bytes() == b"2"
    assert b.ids() == []
    with pytest.raises(UnknownNameError):
        b.open("old")
    assert migration.to_this_machine(a, "old") == "already there"
    # And again, where the deleted chat has left its note.
    assert migration.to_server(a, "old") == "migrated"
    with b.open("old") as chat:
        assert node_copy.own_refs(chat.store) == refs


def test_a_migration_that_was_interrupted_is_completed(nodes: tuple[Chats, Chats]) -> None:
    a, b = nodes
    local = Chats(a.folder, a.config.with_git_storage(None))
    with local.new("old") as chat:
        upload(chat, "x.txt", b"1")
        head = chat.head()
    # Killed after its push, and before it noted that.
    migration.to_server(a, "old")
    node_copy.forget_agreed(a.folder / "old" / "store.git")
    assert migration.to_server(a, "old") == "migrated"
    # Killed after the chat was verified, and before it left the server.
    node_copy.forget_agreed(a.folder / "old" / "store.git")
    assert migration.to_this_machine(a, "old") == "migrated"
    with local.open("old") as chat:
        assert chat.head() == head
    # Another chat with the id is never replaced.
    b.new("old").close()
    with pytest.raises(migration.NotMigratedError):
        migration.to_server(a, "old")


def test_a_check_names_what_a_server_lacks(tmp_path: Path) -> None:
    url, create = on_files(tmp_path / "server")
    a = node(tmp_path, "a", url, create)
    storage = a.config.git_storage
    assert storage is not None

    def lacking() -> list[str]:
        checked = [*server_check.findings(ServerStorage(storage))]
        return [finding.lacks for finding in checked if finding.lacks]

    assert lacking() == []
    registry = tmp_path / "server" / f"{REGISTRY}.git"
    settings = {
        ("receive.advertiseAtomic", "false"): "does not support atomic pushes",
        ("receive.hideRefs", "refs/covalt"): "it refuses refs below refs/covalt",
        ("uploadpack.hideRefs", "refs/covalt"): "it hides them",
        ("receive.denyDeletes", "true"): "receive.denyDeletes",
        ("receive.denyNonFastForwards", "true"): "receive.denyNonFastForwards",
    }
    for (name, value), sentence in settings.items():
        run_git(registry, "config", name, value)
        assert sentence in "\n".join(lacking()), name
        run_git(registry, "config", "--unset", name)
    hook = registry / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    assert "a hook of the server refuses the push" in "\n".join(lacking())
