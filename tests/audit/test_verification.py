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
from covalt_git.transfers.importing import import_path
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import APPROVALS, put_stored
from covalt_git.workspaces.commit_key import FOREIGN_COMMITS, STATEMENTS, add_statement
from tests.calls.conftest import World, make_world
from tests.examples import examples
from tests.operations_client import Operations
from tests.security.test_foreign_commits import Eve, forged, head
from tests.ssh_keys import Key, make_key
from tests.workspaces import old_chats
from tests.workspaces.stores import export_to, git, open_chats

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

    def verify(self, key: Key | None = None, chat_id: str = "c1") -> Verified:
        keys = TrustedKeys.parse([(key or self.key).allowed()])
        with self.world.project().chats.as_left(chat_id) as chat:
            return verify_chat(chat, keys.is_trusted)

    def content(self, oid: str) -> bytes:
        with self.world.project().chats.as_left("c1") as chat:
            return chat.store.read_content(oid, b"commit")

    def add(self, content: bytes, kind: str = "commit") -> str:
        """Add an object to the store as it is; return its id."""
        argv = ("hash-object", "-t", kind, "--literally", "-w", "--stdin")
        return git(self.world.store, *argv, given=content).strip()

    def move(self, ref: str, oid: str) -> None:
        git(self.world.store, "update-ref", ref, oid)

    def list_foreign(self, *oids: str) -> None:
        """Add commits to the list of foreign commits, without the key."""
        listed = git(self.world.store, "cat-file", "blob", commits.FOREIGN).split()
        text = "".join(f"{oid}\n" for oid in sorted({*listed, *oids}))
        self.move(commits.FOREIGN, self.add(text.encode(), "blob"))

    def state(self, key: Key, *oids: str, chat_id: str = "c1") -> None:
        """Add a statement, signed with a key, that commits are foreign; list them so too."""
        with self.world.project().chats.open("c1") as chat:
            add_statement(chat.store, SigningKey.read(key.file), chat_id, FOREIGN_COMMITS, oids)
        self.list_foreign(*oids)

    def signed(self, payload: bytes) -> bytes:
        """Return a commit as the owner of the key signs it."""
        head, end, message = payload.partition(b"\n\n")
        armored = SigningKey.read(self.key.file).sign(payload, b"git").replace("\n", "\n ")
        return head + b"\ngpgsig " + armored.encode() + end + message

    def rewrite(self, target: str, change: Callable[[bytes], bytes]) -> list[str]:
        """Change a commit, and rebuild those above it as they were; return the ids of the new branch, oldest first."""
        rebuilt: dict[str, str] = {}
        for oid in self.oids:
            content = self.content(oid)
            if oid == target:
                content = change(content)
            for old, new in rebuilt.items():
                content = content.replace(b"parent %b" % old.encode(), b"parent %b" % new.encode())
            rebuilt[oid] = self.add(content)
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
    Operations(world.root)("create_chat", chat_id="c2")
    world.call("add", chat_id="c2", text="of another chat")
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


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.rest if name == "many-commits" else ())
        for name in old_chats.EXPECTED
    ],
)
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


def fetch_other_chat(copy: History) -> str:
    """Bring the commits of the chat c2 into the store of c1, as a program can; return the newest one."""
    store = copy.world.store
    other = store.parents[1] / "c2" / "store.git"
    git(store, "fetch", "-q", str(other), "refs/heads/main")
    return git(store, "rev-parse", "FETCH_HEAD").strip()


def with_short_lines(content: bytes) -> bytes:
    """Break the base64 of the signature elsewhere."""
    return re.sub(rb"(BEGIN SSH SIGNATURE-----\n .{7})", rb"\1\n ", content, count=1)


def with_early_signature(content: bytes) -> bytes:
    """Move the signature above the author; its content stays the same."""
    return re.sub(
        rb"(author .*\ncommitter .*\n)(gpgsig (?:.*\n )+.*\n)", rb"\2\1", content, count=1
    )


def with_distant_time(content: bytes) -> bytes:
    return re.sub(rb"> [0-9]+ \+0000", b"> 100000000000000 +0000", content)


def forge(copy: History, branch: str = "main") -> str:
    """Put an unsigned call that never happened on a branch, on a new one without commits below it; return its id."""
    content = with_other_message(without_signature(copy.content(copy.oids[-1])))
    if branch != "main":
        content = re.sub(rb"parent \w+\n", b"", content)
    oid = copy.add(content)
    copy.move(f"refs/heads/{branch}", oid)
    return oid


def move_tip(copy: History, content: bytes) -> None:
    assert content != copy.content(copy.oids[-1])
    copy.move("refs/heads/main", copy.add(content))


def strip_and_list_all(copy: History) -> None:
    """Leave one signed commit, the first, so that there is something which the key proves."""
    tip = copy.rewrite(copy.oids[UNSIGNED + 1], without_signature)
    copy.list_foreign(*tip[UNSIGNED + 1 :])


def swap_order(copy: History) -> None:
    """Exchange two signed commits below the newest one."""
    third, fourth = copy.oids[3], copy.oids[4]
    below = copy.oids[2]
    upper = copy.add(copy.content(fourth).replace(third.encode(), below.encode()))
    lower = copy.add(copy.content(third).replace(below.encode(), upper.encode()))
    copy.move("refs/heads/main", lower)


def unsigned_statement(copy: History) -> None:
    copy.state(copy.key, copy.oids[-1])
    content = copy.content(git(copy.world.store, "rev-parse", STATEMENTS).strip())
    copy.move(STATEMENTS, copy.add(without_signature(content)))


CHANGES: dict[str, Callable[[History], object]] = {
    "the newest call is listed as foreign": lambda copy: copy.list_foreign(copy.oids[-1]),
    "all calls are listed as foreign": lambda copy: copy.list_foreign(*copy.oids),
    "a forged call is listed as foreign": lambda copy: copy.list_foreign(forge(copy)),
    "calls without their signatures are listed as foreign": strip_and_list_all,
    "a forged call is above all": forge,
    "a forged call is on its own branch": lambda copy: forge(copy, "b"),
    "another key states that a call is foreign": lambda copy: copy.state(copy.other, copy.oids[-1]),
    "a statement of another chat is used": lambda copy: copy.state(
        copy.key, copy.oids[-1], chat_id="c2"
    ),
    "a statement is not signed": unsigned_statement,
    "the statements are removed": lambda copy: git(
        copy.world.store, "update-ref", "-d", STATEMENTS
    ),
    "a call is in place of the statements": lambda copy: copy.move(STATEMENTS, copy.oids[-1]),
    "the list of foreign commits is removed": lambda copy: git(
        copy.world.store, "update-ref", "-d", commits.FOREIGN
    ),
    "a branch is that of another chat": lambda copy: copy.move(
        "refs/heads/main", fetch_other_chat(copy)
    ),
    "a further branch is that of another chat": lambda copy: copy.move(
        "refs/heads/b", fetch_other_chat(copy)
    ),
    "a deleted branch is that of another chat": lambda copy: copy.move(
        "refs/covalt/deleted/01a1fa2f-f10e-7c3c-9d5e-0a7a54a3c7a1/b", fetch_other_chat(copy)
    ),
    "two calls are exchanged": swap_order,
    "the signature has other line breaks": lambda copy: move_tip(
        copy, with_short_lines(copy.content(copy.oids[-1]))
    ),
    "the signature is at another place": lambda copy: move_tip(
        copy, with_early_signature(copy.content(copy.oids[-1]))
    ),
    "the time is in no calendar": lambda copy: move_tip(
        copy, copy.signed(with_distant_time(without_signature(copy.content(copy.oids[-1]))))
    ),
    "git shows another commit in place of one": lambda copy: copy.move(
        f"refs/replace/{copy.oids[-1]}", copy.oids[3]
    ),
    "the newest commit names no chat, and those below name it": lambda copy: move_tip(
        copy,
        copy.signed(
            without_signature(copy.content(copy.oids[-1])).replace(b"Covalt-Chat: c1\n", b"")
        ),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_one_change_of_a_signed_store_is_found(
    history: History, tmp_path: Path, change: str
) -> None:
    copy = history.copy(tmp_path)
    CHANGES[change](copy)
    assert copy.verify().misfit is not None
    # The others are still checked.
    assert copy.verify(chat_id="c2").misfit is None


@pytest.mark.rest
def test_forks_and_imports_of_signed_chats_fit(history: History, tmp_path: Path) -> None:
    copy = history.copy(tmp_path)
    operate = Operations(copy.world.root)
    operate("fork_chat", chat_id="c1", new_chat_id="f1")
    copy.world.call("add", chat_id="f1", text="of the fork")
    operate("fork_chat", chat_id="f1", new_chat_id="f2")
    copy.world.call("add", chat_id="f2", text="of the fork's fork")
    with copy.world.project().chats.open("f2") as chat:
        export_to(chat, tmp_path / "f2.bundle")
    imported = import_path(copy.world.project().chats, tmp_path / "f2.bundle")
    copy.world.call("add", chat_id=imported.chat_id, text="of the import")

    assert copy.verify(chat_id="f1") == Verified(SIGNED + 1, UNSIGNED, 1)
    assert copy.verify(chat_id="f2") == Verified(SIGNED + 2, UNSIGNED, 1)
    assert copy.verify(chat_id=imported.chat_id) == Verified(1, 0, SIGNED + 2 + UNSIGNED + 1)

    # A call that the origin made after the fork is not one of the fork.
    copy.world.call("add", text="later")
    store = copy.world.store.parents[1] / "f2" / "store.git"
    git(store, "fetch", "-q", str(copy.world.store), "refs/heads/main:refs/heads/b")
    misfit = copy.verify(chat_id="f2").misfit
    assert misfit is not None
    assert misfit.commit == head(copy.world)
