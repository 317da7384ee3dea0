"""Names of commits: each means the same commit, or is the same error, in the store and in the index."""

from collections.abc import Callable
from typing import Any

import pytest

from covalt_git.conversations import messages
from covalt_git.conversations.commit_names import resolve
from covalt_git.errors import CovaltError
from covalt_git.models.commit_record import MessageRecord
from covalt_git.workspaces import branches
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.calls.conftest import World, world

Face = Callable[[str], str]

__all__ = ["world"]


def said(chat: ChatStore, **words: Any) -> str:
    with writing(chat) as writer:
        place = messages.add(writer, MessageRecord(role="user", **words))
    assert place.message_id is not None
    return place.message_id


@pytest.fixture
def names(world: World) -> dict[str, str]:
    """Return what each name means, or the code of its error, in a chat of four messages and three calls."""
    (world.workspace / "a.txt").write_text("1")
    with world.project().chats.open("c1") as chat:
        first = said(chat, text="one")
        call = world.call_for(first, "add").call
        second = said(chat, ref="app-77")
        own = str(chat.head())
        other = world.call_for(second, "add", text="two").call
        third = said(chat, ref="idea")
        at_third = str(chat.head())
        at_call, at_other = str(call.post_manifest_id), str(other.post_manifest_id)
        with writing(chat) as writer:
            branches.create(writer, "idea", at_call)
            branches.create(writer, at_other[:6], at_call)
        said(chat, ref="1234")
        last = world.call("add", text="three").call
        head = str(chat.head())
        parts = [at_call[:7], own[:8], at_third[:12], head[:10], call.id[-8:], other.id[-12:]]
        part_of = [at_call, own, at_third, head, at_call, at_other]
    return {
        **dict(zip(parts, part_of, strict=True)),
        "HEAD": head,
        "main": head,
        "idea": at_call,
        at_other[:6]: at_call,
        head: head,
        own: own,
        first: at_call,
        second: at_other,
        third: at_third,
        call.id: at_call,
        other.id: at_other,
        last.id: head,
        "app-77": at_other,
        "message:app-77": at_other,
        "message:idea": at_third,
        f"message:{first}": at_call,
        "1234": str(resolve(chat, "main~")),
        "main~1": str(resolve(chat, "HEAD~")),
        "HEAD~0": head,
        "app-77~1": own,
        "message:app-77~": own,
        "main~999": "unknown_manifest",
        "nothing": "unknown_manifest",
        "message:nothing": "unknown_manifest",
        "message:main": "unknown_manifest",
        "": "unknown_manifest",
        "../x": "unknown_manifest",
        "f" * 40: "unknown_manifest",
        "abc": "unknown_manifest",
        "add": "unknown_manifest",
    }


def meaning(face: Face, name: str) -> str:
    try:
        return face(name)
    except CovaltError as error:
        return error.code


def test_each_name_means_the_same_in_the_store_and_in_the_index(
    world: World, names: dict[str, str]
) -> None:
    project = world.project()
    with project.chats.open("c1") as chat, project.chat_index() as index:
        faces: dict[str, Face] = {
            "resolver": lambda name: resolve(chat, name),
            "index": lambda name: index.resolve(chat, name),
        }
        found = {face: {name: meaning(one, name) for name in names} for face, one in faces.items()}

    assert len(names) >= 30
    assert found == dict.fromkeys(faces, names)


def test_a_mistyped_id_gets_a_suggestion_that_is_shown(world: World) -> None:
    with world.project().chats.open("c1") as chat:
        said(chat, ref="one")
        shown = str(chat.head())[:12]
        with pytest.raises(CovaltError) as unknown:
            resolve(chat, shown[:7] + ("0" if shown[7] != "0" else "1"))

    assert f"did you mean {shown!r}?" in unknown.value.hint
