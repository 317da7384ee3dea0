"""``audit verify`` names the first commit of a real store in which one thing was changed."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from covalt_git.audit.trusted_keys import TrustedKeys
from covalt_git.audit.verification import Verified, verify_chat
from covalt_git.credentials.ssh_signatures import SigningKey
from covalt_git.git_store.objects import split_signature
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import APPROVALS, put_stored
from tests.calls.conftest import World, make_world
from tests.examples import examples
from tests.operations_client import Operations
from tests.security.test_foreign_commits import Eve, forged, head
from tests.ssh_keys import Key, make_key
from tests.workspaces import old_chats
from tests.workspaces.stores import git, open_chats

LARGE = "x" * 20_000
UNSIGNED, SIGNED = 2, 6


class History(NamedTuple):
    """A project whose chat has commits of each kind, oldest first, and two keys, of which the first signs."""

    world: World
    key: Key
    other: Key
    oids: tuple[str, ...]
    """Two unsigned commits, five signed ones, a listed foreign one, and a signed one."""

    def copy(self, folder: Path) -> "History":
        shutil.copytree(self.world.root, folder / "project", symlinks=True)
        return self._replace(world=World(folder / "project"))

    def verify(self, key: Key | None = None) -> Verified:
        keys = TrustedKeys.parse([(key or self.key).allowed()])
        with self.world.project().chats.as_left("c1") as chat:
            return verify_chat(chat, keys.is_trusted)

    def content(self, oid: str) -> bytes:
        with self.world.project().chats.as_left("c1") as chat:
            return chat.store.read_content(oid, b"commit")

    def rewrite(self, target: str, change: Callable[[bytes], bytes]) -> list[str]:
        """Change a commit, and rebuild those above it as they were; return the ids of the new branch, oldest first."""
        rebuilt: dict[str, str] = {}
        for oid in self.oids:
            content = self.content(oid)
            if oid == target:
                content = change(content)
            for old, new in rebuilt.items():
                content = content.replace(b"parent %b" % old.encode(), b"parent %b" % new.encode())
            store = self.world.store
            argv = ("hash-object", "-t", "commit", "-w", "--stdin")
            rebuilt[oid] = git(store, *argv, given=content).strip()
        git(self.world.store, "update-ref", "refs/heads/main", rebuilt[self.oids[-1]])
        return [*rebuilt.values()]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    folder = tmp_path_factory.mktemp("history")
    world, key = make_world(folder / "project"), make_key(folder, "key")
    world.call("add", text="a")
    (world.workspace / "note.txt").write_text("of the user", encoding="utf-8")
    Operations(world.root)("save_edits", chat_id="c1")
    world.configure(f"audit: {{sign_key: {key.file}}}\n")
    world.call("add", text="b")
    world.call("add", text=LARGE)
    world.approve(world.ask(text="c"))
    (world.workspace / "note.txt").write_text("of the user again", encoding="utf-8")
    world.deny(world.ask(text="d"))
    git(folder, "clone", "-q", str(world.store), "clone")
    eve = Eve(world, folder / "clone")
    eve.push(eve.commit(forged(world), head(world)), "main")
    world.call("add", text="e")
    oids = tuple(manifest.id for manifest in world.log())
    return History(world, key, make_key(folder, "other"), oids)


def test_a_history_as_it_was_written_fits(history: History) -> None:
    assert history.verify() == Verified(SIGNED, UNSIGNED, 1)
    assert len(history.oids) == SIGNED + UNSIGNED + 1


def test_a_history_that_another_key_signed_does_not_fit(history: History) -> None:
    misfit = history.verify(history.other).misfit
    assert misfit is not None
    assert misfit.commit == history.oids[UNSIGNED]
    assert history.key.fingerprint in misfit.why


def with_other_message(content: bytes) -> bytes:
    head, end, message = content.partition(b"\n\n")
    return head + end + message.replace(b'"by":"local"', b'"by":"other"')


def with_other_tree(content: bytes) -> bytes:
    # The empty tree, which git knows without storing it.
    return re.sub(rb"^tree \w+", b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904", content)


def with_other_author(content: bytes) -> bytes:
    return content.replace(b"author local <local@", b"author other <other@", 1)


def without_signature(content: bytes) -> bytes:
    return split_signature(content, "sha1")[0]


def with_other_toolset(content: bytes) -> bytes:
    return re.sub(rb"(Covalt-Toolset: .* sha256:)[0-9a-f]{64}", rb"\g<1>" + b"0" * 64, content)


def with_unreadable_record(content: bytes) -> bytes:
    return content.replace(b'"v":1}', b'"v":9}', 1)


signed_places = st.integers(UNSIGNED, UNSIGNED + SIGNED).filter(lambda at: at != 7)
PROPERTY = settings(
    max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@PROPERTY
@given(
    at=signed_places,
    change=st.sampled_from([with_other_message, with_other_tree, with_other_author]),
)
def test_a_changed_signed_commit_is_named(
    history: History,
    tmp_path_factory: pytest.TempPathFactory,
    at: int,
    change: Callable[[bytes], bytes],
) -> None:
    copy = history.copy(tmp_path_factory.mktemp("copy"))
    rebuilt = copy.rewrite(history.oids[at], change)
    assert rebuilt[at] != history.oids[at]
    misfit = copy.verify().misfit

    assert misfit is not None
    assert misfit.commit == rebuilt[at]
    assert "does not match its signature" in misfit.why


@PROPERTY
@given(at=signed_places.filter(lambda at: at > UNSIGNED))
def test_a_commit_without_its_parent_is_named(
    history: History, tmp_path_factory: pytest.TempPathFactory, at: int
) -> None:
    """Leave the commits before it out of the branch."""
    copy = history.copy(tmp_path_factory.mktemp("copy"))
    earlier = history.oids[at - 2].encode()
    rebuilt = copy.rewrite(
        history.oids[at], lambda content: re.sub(rb"parent \w+", b"parent " + earlier, content)
    )
    misfit = copy.verify().misfit
    assert misfit is not None
    assert misfit.commit == rebuilt[at]


@PROPERTY
@given(at=signed_places, by=st.sampled_from(["nobody", "other key"]))
def test_a_commit_that_the_key_did_not_sign_is_named(
    history: History, tmp_path_factory: pytest.TempPathFactory, at: int, by: str
) -> None:
    copy = history.copy(tmp_path_factory.mktemp("copy"))
    key = SigningKey.read(history.other.file)

    def change(content: bytes) -> bytes:
        payload = without_signature(content)
        if by == "nobody":
            return payload
        head, end, message = payload.partition(b"\n\n")
        armored = key.sign(payload, b"git").replace("\n", "\n ")
        return head + b"\ngpgsig " + armored.encode() + end + message

    rebuilt = copy.rewrite(history.oids[at], change)
    misfit = copy.verify().misfit
    assert misfit is not None
    # Without its signature, the first signed commit looks like one before it; but its child has another parent now.
    expected = at + 1 if by == "nobody" and at == UNSIGNED else at
    assert misfit.commit == rebuilt[expected]


@PROPERTY
@given(
    at=st.integers(0, UNSIGNED - 1),
    change=st.sampled_from([with_other_toolset, with_unreadable_record]),
)
def test_an_unsigned_commit_whose_record_was_damaged_is_named(
    history: History,
    tmp_path_factory: pytest.TempPathFactory,
    at: int,
    change: Callable[[bytes], bytes],
) -> None:
    at = 0 if change is with_other_toolset else at  # only a call has a toolset
    copy = history.copy(tmp_path_factory.mktemp("copy"))
    rebuilt = copy.rewrite(history.oids[at], change)
    misfit = copy.verify().misfit
    assert misfit is not None
    assert misfit.commit == rebuilt[at]


@pytest.mark.parametrize("state", ["other bytes", "missing"])
def test_a_call_whose_large_arguments_were_changed_is_named(
    history: History, tmp_path: Path, state: str
) -> None:
    copy = history.copy(tmp_path)
    if state == "missing":
        git(copy.world.store, "update-ref", "-d", "refs/covalt/records")
    else:
        name = git(copy.world.store, "ls-tree", "-r", "--name-only", "refs/covalt/records").split()[
            0
        ]
        blob = git(copy.world.store, "hash-object", "-w", "--stdin", given=b'{"text":"y"}').strip()
        inner = git(copy.world.store, "mktree", given=f"100644 blob {blob}\t{name[3:]}\n".encode())
        outer = f"040000 tree {inner.strip()}\t{name[:2]}\n".encode()
        tree = git(copy.world.store, "mktree", given=outer).strip()
        commit = git(copy.world.store, "commit-tree", tree, "-m", "records").strip()
        git(copy.world.store, "update-ref", "refs/covalt/records", commit)
    misfit = copy.verify().misfit

    assert misfit is not None
    assert misfit.commit == history.oids[3]


def test_a_call_with_other_arguments_than_its_approval_is_named(
    history: History, tmp_path: Path
) -> None:
    copy = history.copy(tmp_path)
    with copy.world.project().chats.open("c1") as chat:
        approval = next(one for one in chat.approvals() if one.state == "approved")
        changed = approval.model_copy(update={"args_digest": "sha256:" + "0" * 64})
        put_stored(chat.store, APPROVALS + approval.execution_id, changed, "approval")
    misfit = copy.verify().misfit
    assert misfit is not None
    assert (misfit.commit, misfit.record_id) == (history.oids[4], approval.call_id)


@pytest.mark.parametrize("state", ["removed", "unsorted"])
def test_a_changed_list_of_foreign_commits_is_found(
    history: History, tmp_path: Path, state: str
) -> None:
    copy = history.copy(tmp_path)
    foreign = history.oids[7]
    if state == "removed":
        git(copy.world.store, "update-ref", "-d", commits.FOREIGN)
    else:
        text = f"{foreign}\n{'0' * 40}\n".encode()
        blob = git(copy.world.store, "hash-object", "-w", "--stdin", given=text).strip()
        git(copy.world.store, "update-ref", commits.FOREIGN, blob)
    misfit = copy.verify().misfit
    assert misfit is not None
    assert misfit.commit == (foreign if state == "removed" else "")


def test_an_unsigned_commit_on_another_branch_is_named_by_its_time(
    history: History, tmp_path: Path
) -> None:
    """A branch from before the first signed commit has no signed one below."""
    copy = history.copy(tmp_path)
    copy.world.configure()
    operate = Operations(copy.world.root)
    operate("create_branch", chat_id="c1", name="old", from_manifest=history.oids[0])
    operate("switch_branch", chat_id="c1", branch="old")
    copy.world.call("add", text="late")
    misfit = copy.verify().misfit
    assert misfit is not None
    assert misfit.commit == head(copy.world, "old")


def test_a_missing_object_is_named(history: History, tmp_path: Path) -> None:
    copy = history.copy(tmp_path)
    gone = "1" * 40
    copy.rewrite(
        history.oids[0],
        lambda content: content.replace(b"\nauthor", b"\nparent " + gone.encode() + b"\nauthor", 1),
    )
    misfit = copy.verify().misfit
    assert misfit is not None
    assert misfit.commit == gone


@pytest.mark.parametrize("name", old_chats.EXPECTED)
def test_a_chat_of_version_0_1_fits(tmp_path: Path, name: str) -> None:
    old_chats.unpack(name, tmp_path)
    with open_chats(tmp_path, WorkspaceConfig()).open("c1") as chat:
        verified = verify_chat(chat, TrustedKeys({}).is_trusted)
    assert verified.misfit is None
    assert verified.unsigned > 0


def test_keys_are_trusted_only_at_the_times_of_their_lines(history: History) -> None:
    def counts(options: str) -> bool:
        keys = TrustedKeys.parse(["# a comment", history.key.allowed(options=options)])
        with history.world.project().chats.as_left("c1") as chat:
            return verify_chat(chat, keys.is_trusted).misfit is None

    assert counts('namespaces="git"')
    assert counts('valid-after="20200101Z",valid-before="29990101Z"')
    assert not counts('valid-before="20200101"')
    assert not counts('valid-after="29990101"')
    assert not counts("cert-authority")
