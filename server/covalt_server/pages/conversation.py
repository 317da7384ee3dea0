"""Pages of a conversation: a branch of a chat, two branches side by side, and one message.

Each message and each call is a row of one list, so that live.js adds a row without replacing those that the
reader has opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Blueprint, render_template, request

from covalt_git.operations.chats import chats, conversation, merges, messages
from covalt_server.pages import elicitation, layout
from covalt_server.pages.chats import available_name
from covalt_server.pages.preview import WIDTHS, pane_of, shared_page
from covalt_server.render import call_lines, markdown
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from covalt_git.operations.chats.chats import ChatDetail
    from covalt_git.operations.chats.conversation import ConversationPage, Turn

pages = Blueprint("conversation", __name__)

MOST_LETTERS = 20_000
"""Letters of a message in a conversation; the message's own page has all of it."""

_TITLE = 60


@pages.get("/chats/<chat_id>")
def chat(chat_id: str) -> str:
    """Show the conversation of the active branch, or of another one; with ``compare``, of two.

    The result of the call with the id ``call`` is open.
    """
    branch, compare, before_id = (
        request.args.get(name) or None for name in ("branch", "compare", "before")
    )
    chat_detail = ask(chats.get_chat, chat_id=chat_id)
    page = _read(chat_id, branch=branch, before=before_id, without=compare)
    sides = [page]
    if compare is not None:
        sides.append(_read(chat_id, branch=compare, without=page.branch))
    merged = any(row.source == "merge" for turn in page.turns for row in turn.rows)
    return render_template(
        "conversation.html",
        page=page,
        sides=sides,
        common=_common_turn(chat_id, sides) if compare is not None else None,
        compare=compare,
        shared_page=shared_page(chat_id, [(side.branch, side.manifest_id) for side in sides])
        if compare is not None
        else None,
        pane=pane_of(chat_id, page.branch, page.manifest_id)
        if not compare and not before_id
        else None,
        widths=WIDTHS,
        before=before_id,
        conflicts=len(ask(merges.list_conflicts, chat_id=chat_id).conflicts) if merged else 0,
        **_values(chat_detail, *sides),
    )


@pages.get("/chats/<chat_id>/messages/<message_id>")
def message(chat_id: str, message_id: str) -> str:
    """Show a message with the calls for it, and the form that edits it."""
    chat_detail = ask(chats.get_chat, chat_id=chat_id)
    page = _read(chat_id, message=message_id)
    turn = next(turn for turn in page.turns if turn.message is not None)
    assert turn.message is not None
    line = " ".join((turn.message.text or turn.message.ref or "").split())
    title = f"{turn.message.role}: {line[:_TITLE]}"
    values = _values(chat_detail, page) | {"most_letters": None}
    return render_template("message.html", page=page, turn=turn, title=title, **values)


@pages.post("/chats/<chat_id>/messages")
def add(chat_id: str) -> Response:
    ask(messages.add_message, chat_id=chat_id, text=_text())
    return _back(chat_id, "")


@pages.post("/chats/<chat_id>/messages/<message_id>/edit")
def edit(chat_id: str, message_id: str) -> Response:
    """Add a changed version of a message on a new branch."""
    place = ask(messages.edit_message, chat_id=chat_id, message=message_id, text=_text())
    return _back(chat_id, f"Edited on the new branch {place.branch}.")


@pages.post("/chats/<chat_id>/messages/<message_id>/retry")
def retry(chat_id: str, message_id: str) -> Response:
    """Start a branch for another answer to a message, or in place of it."""
    place = ask(messages.retry_message, chat_id=chat_id, message=message_id)
    return _back(chat_id, f"The next message and calls are on the new branch {place.branch}.")


@pages.post("/chats/<chat_id>/messages/<message_id>/switch")
def switch(chat_id: str, message_id: str) -> Response:
    """Check out the branch with the longest continuation of a message."""
    place = ask(messages.switch_to_message, chat_id=chat_id, message=message_id)
    return _back(chat_id, f"Switched to {place.branch}.")


def _back(chat_id: str, text: str) -> Response:
    return layout.back("conversation.chat", text, chat_id=chat_id)


def _text() -> str:
    """Return the text of a form, with line breaks as git has them."""
    return request.form.get("text", "").replace("\r\n", "\n").strip()


def _read(chat_id: str, **fields: str | None) -> ConversationPage:
    return ask(conversation.read_conversation, chat_id=chat_id, **fields)


def _common_turn(chat_id: str, sides: list[ConversationPage]) -> Turn | None:
    """Return the last turn that both branches have; None if they have none."""
    first = next((side.turns[0].id for side in sides if side.turns and not side.more), None)
    if first is None:
        return None
    shared = _read(chat_id, before=first).turns
    return next((turn for turn in reversed(shared) if turn.message), None)


def _values(chat_detail: ChatDetail, *parts: ConversationPage) -> dict[str, Any]:
    """Return the values that the templates of turns need."""
    questions = {
        call.id: url
        for part in parts
        for call in part.unfinished
        if call.status == "running" and (url := elicitation.question_url(call.id, to="chat"))
    }
    return {
        "chat": chat_detail,
        "open_call": request.args.get("call") or call_lines.opened(parts[0]),
        "folds": call_lines.folds,
        "document": markdown.rendered,
        "most_letters": MOST_LETTERS,
        "new_branch": available_name(chat_detail.branches, "branch"),
        "questions": questions,
        "may_undo": layout.may_restore(),
        "decisions": [
            call.id for call in parts[0].unfinished if call.approval or call.id in questions
        ],
    }
