"""The states that a select offers: where the folder is, the branches, and what happened last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_server.api import chats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.models.chats import Branch

MOST_RECENT = 20
SHORT = 7


@dataclass(frozen=True, slots=True)
class Choice:
    """One option: what it is called in an address, and for people."""

    value: str
    label: str


def choices(
    chat_id: str, branches: Sequence[Branch], *chosen: str
) -> dict[str, tuple[Choice, ...]]:
    """Return the options by the heading they stand under; those that are ``chosen`` among them."""
    recent = chats.list_manifests.ask(chat_id=chat_id, limit=MOST_RECENT).manifests
    active = next(one.name for one in branches if one.active)
    groups = {
        "Branches": (
            Choice("HEAD", f"{active} (the folder's branch)"),
            *(Choice(one.name, one.name) for one in branches if one.manifest_id and not one.active),
        ),
        "Last states": tuple(Choice(one.id, f"{one.id[:SHORT]} {one.title}") for one in recent),
    }
    known = {choice.value for group in groups.values() for choice in group} | {""}
    others = tuple(Choice(text, text[:40]) for text in chosen if text not in known)
    return {"Chosen": others, **groups} if others else groups
