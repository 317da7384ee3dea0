"""The answer to a form of a merge that another window, user or agent has made since the form was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import flash, url_for
from markupsafe import Markup

from covalt_git.conversations.commit_names import SHOWN_DIGITS
from covalt_git.operations.chats import manifests
from covalt_server.pages import layout
from covalt_server.request_context import ask

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

    from covalt_git.operations.chats.manifests import ManifestRow
    from covalt_git.operations.chats.merges import Merged

_MOST_COMMITS = 100
"""Commits among which the merge is searched."""

_MERGED = Markup('{} was merged into {} meanwhile, by {}: <a href="{}">{}</a>.')
_LOST = Markup(' Your choices were not applied. <a href="{}">See what was merged</a>')


def merged_meanwhile(chat_id: str, merge: Merged, *, has_choices: bool) -> Response:
    """Lead back to the chat, with the commit that has merged the branch; in green only if no choice was lost."""
    commit = _merge_of(chat_id, merge)
    if commit is None:  # a fast-forward, or an older merge
        message = Markup("Nothing to merge: {} already has {}.").format(merge.into, merge.branch)
        if has_choices:
            message += Markup(" Your choices were not applied.")
    else:
        page = url_for("chats.state", chat_id=chat_id, manifest=commit.id)
        message = _MERGED.format(
            merge.branch, merge.into, commit.by, page, commit.id[:SHOWN_DIGITS]
        )
        if has_choices:
            message += _LOST.format(
                url_for("chats.difference", chat_id=chat_id, old=commit.parents[0], new=commit.id)
            )
    flash(message, "warn" if has_choices else "good")
    return layout.back("conversation.chat", chat_id=chat_id)


def _merge_of(chat_id: str, merge: Merged) -> ManifestRow | None:
    """Return the newest commit of the active branch that has the other branch's last commit as a merged parent."""
    head = ask(manifests.get_workspace_manifest, chat_id=chat_id, manifest=merge.branch).id
    page = ask(
        manifests.list_manifests,
        chat_id=chat_id,
        branch=merge.into,
        first_parents=True,
        limit=_MOST_COMMITS,
    )
    return next((row for row in page.manifests if head in row.parents[1:]), None)
