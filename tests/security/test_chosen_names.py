"""No name that a role chooses for a branch or a message is taken for the id of another commit or call."""

import pytest

from covalt_git.calls.approvals import ApprovalRenewedError
from covalt_git.calls.running import Follower, Started
from covalt_git.conversations import messages
from covalt_git.conversations.commit_names import UnknownCommitError, of_call, resolve
from covalt_git.errors import CovaltError
from covalt_git.models.commit_record import MessageRecord
from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.calls.conftest import World, world
from tests.examples import covering, rest
from tests.operations_client import Operations
from tests.workspaces.stores import git

__all__ = ["world"]
RULE = 'approvals: [{pattern: "workspace.restore", require: true}]'


@pytest.fixture
def commits(world: World) -> tuple[str, str, str]:
    """Two commits with the same file, the older first, and the id of the call that made the newer."""
    operate = Operations(world.root)
    good = operate.commit("c1", **{"deploy.sh": "GOOD"})
    call = world.call("add", text="x").call
    operate.commit("c1", **{"deploy.sh": "BAD"})
    return good, str(call.post_manifest_id), call.id


def choose(chat: ChatStore, kind: str, name: str, commit: str) -> None:
    """Choose a name for a new branch at a commit, or as an application's id of a new message."""
    with writing(chat) as writer:
        if kind == "branch":
            branches.create(writer, name, commit)
        else:
            messages.add(writer, MessageRecord(role="user", text="x", ref=name))


@pytest.mark.parametrize(("digits", "chosen"), covering([40, 12], ["branch", "reference"]))
def test_no_chosen_name_is_taken_for_an_id(
    world: World, commits: tuple[str, str, str], digits: int, chosen: str
) -> None:
    good = commits[0]
    name = good[:digits]
    with world.project().chats.open("c1") as chat:
        choose(chat, chosen, name, str(chat.head()))

        if digits == 40:
            assert resolve(chat, name) == good
            with world.project().chat_index() as index:
                assert index.resolve(chat, name) == good
        else:
            with pytest.raises(CovaltError) as refused:
                resolve(chat, name)
            assert refused.value.code == "ambiguous"


@pytest.mark.parametrize(("length", "chosen"), covering([8, 12, 17, 22], ["branch", "reference"]))
def test_no_chosen_name_is_taken_for_the_end_of_the_id_of_a_call(
    world: World, commits: tuple[str, str, str], length: int, chosen: str
) -> None:
    good, made, call_id = commits
    name = call_id[-length:]
    with world.project().chats.open("c1") as chat:
        assert resolve(chat, name) == made
        choose(chat, chosen, name, good)

        with pytest.raises(CovaltError) as refused:
            resolve(chat, name)
        assert refused.value.code == "ambiguous"


def test_a_branch_with_the_id_of_a_call_is_not_the_call(
    world: World, commits: tuple[str, str, str]
) -> None:
    good, made, call_id = commits
    with world.project().chats.open("c1") as chat:
        with writing(chat) as writer:
            branches.create(writer, call_id, good)

        assert resolve(chat, call_id) == made
        assert of_call(chat, call_id) == made


@pytest.mark.parametrize("digits", [40, 12])
def test_an_approved_restore_brings_back_what_the_reviewer_saw(
    world: World, commits: tuple[str, str, str], digits: int
) -> None:
    world.configure(RULE)
    name = commits[0][:digits]
    execution_id = world.ask("workspace:restore", manifest=name)
    with world.project().chats.open("c1") as chat, writing(chat) as writer:
        branches.create(writer, name, str(chat.head()))

    if digits == 40:
        world.approve(execution_id)
        assert (world.workspace / "deploy.sh").read_text() == "GOOD"
    else:
        with pytest.raises(ApprovalRenewedError):
            world.approve(execution_id)
        assert (world.workspace / "deploy.sh").read_text() == "BAD"


def test_an_approved_restore_uses_the_commit_that_was_approved(
    world: World, commits: tuple[str, str, str]
) -> None:
    world.configure(RULE)
    with world.project().chats.open("c1") as chat, writing(chat) as writer:
        branches.create(writer, "b", commits[0])
        bad = str(chat.head())
    execution_id = world.ask("workspace:restore", manifest="b")

    def move(event: object) -> None:
        if isinstance(event, Started):  # after the approval was checked
            git(world.root / "data/chats/c1/store.git", "update-ref", "refs/heads/b", bad)

    world.project().approvals(follower=Follower(move)).approve(execution_id)

    assert (world.workspace / "deploy.sh").read_text() == "GOOD"


def test_a_name_without_a_commit_is_not_resolved_after_its_approval(
    world: World, commits: tuple[str, str, str]
) -> None:
    world.configure(RULE)
    execution_id = world.ask("workspace:restore", manifest="b")
    before = (world.workspace / "deploy.sh").read_text()

    def create(event: object) -> None:
        if isinstance(event, Started):  # after the approval was checked
            git(world.root / "data/chats/c1/store.git", "update-ref", "refs/heads/b", commits[0])

    outcome = world.project().approvals(follower=Follower(create)).approve(execution_id)

    assert outcome.error is not None
    assert "named no commit, or several, when the approval was requested" in outcome.error.message
    assert (world.workspace / "deploy.sh").read_text() == before


def test_a_full_id_is_never_taken_for_a_chosen_name(
    world: World, commits: tuple[str, str, str]
) -> None:
    missing = "0c935ff8" * 5
    with world.project().chats.open("c1") as chat, writing(chat) as writer:
        branches.create(writer, missing, commits[0])
        messages.add(writer, MessageRecord(role="user", text="x", ref=missing))

        with pytest.raises(UnknownCommitError):
            resolve(chat, missing)
        assert resolve(chat, f"message:{missing}") == chat.head()


def test_an_approval_ends_when_a_branch_in_its_arguments_moves(
    world: World, commits: tuple[str, str, str]
) -> None:
    world.configure(RULE)
    with world.project().chats.open("c1") as chat, writing(chat) as writer:
        branches.create(writer, "b", commits[0])
    execution_id = world.ask("workspace:restore", manifest="b")
    git(world.root / "data/chats/c1/store.git", "update-ref", "refs/heads/b", commits[1])

    with pytest.raises(ApprovalRenewedError, match="another commit"):
        world.approve(execution_id)


@pytest.mark.parametrize("form", ["{good}~1", "{call}", rest("HEAD~1"), rest("main~2")])
def test_a_reference_is_not_taken_for_what_a_name_means_by_itself(
    world: World, commits: tuple[str, str, str], form: str
) -> None:
    name = form.format(good=commits[1], call=commits[2][-12:])
    with world.project().chats.open("c1") as chat:
        with writing(chat) as writer:
            messages.add(writer, MessageRecord(role="user", text="x", ref=name))
            for text in ("y", "z", "z"):
                messages.add(writer, MessageRecord(role="user", text=text))

        with pytest.raises(CovaltError) as refused:
            resolve(chat, name)
        assert refused.value.code == "ambiguous"
        assert resolve(chat, f"message:{name}")


@pytest.mark.parametrize("digits", [rest(40), 12])
def test_the_id_of_a_deleted_branch_is_not_that_of_a_new_one(
    world: World, commits: tuple[str, str, str], digits: int
) -> None:
    operate = Operations(world.root)
    operate("create_branch", chat_id="c1", name="gone")
    operate("switch_branch", chat_id="c1", branch="gone")
    kept = operate.commit("c1", **{"kept.txt": "x"})
    operate("switch_branch", chat_id="c1", branch="main")
    operate("delete_branch", chat_id="c1", branch="gone", force=True)
    with world.project().chats.open("c1") as chat:
        with writing(chat) as writer:
            branches.create(writer, kept[:digits], commits[0])

        if digits == 40:
            assert resolve(chat, kept) == kept
        else:
            with pytest.raises(CovaltError) as refused:
                resolve(chat, kept[:digits])
            assert refused.value.code == "ambiguous"
