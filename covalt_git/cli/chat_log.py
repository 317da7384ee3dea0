"""``covalt-git chat log`` and ``chat show``: the states of a chat, and one of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from covalt_git.cli import output, result_text
from covalt_git.cli.context import chat_argument, json_option, project
from covalt_git.workspaces import commit_names, history

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.models.chats import FileChange, WorkspaceManifest
    from covalt_git.workspaces.chats import ChatStore
    from covalt_git.workspaces.history import GraphRow


_MOST_NAMES = 4


@click.command()
@chat_argument
@click.argument("manifest", required=False)
@click.option("-n", "--max-count", type=click.IntRange(1), help="Show at most this many.")
@click.option("--all", "everything", is_flag=True, help="Show the manifests of all branches.")
@click.option(
    "--graph", is_flag=True, help="Draw the branches: all, or those that lead to MANIFEST."
)
@json_option
def log(
    chat_id: str,
    manifest: str | None,
    max_count: int | None,
    *,
    everything: bool,
    graph: bool,
    as_json: bool,
) -> None:
    """List the states of a chat's files, newest first, with what made each of them.

    That is the way to MANIFEST, by default to the active branch.
    """
    with project().chats.open(chat_id) as chat:
        start = chat.head() if manifest is None else commit_names.resolve(chat, manifest)
        if everything or (graph and manifest is None):
            found = history.newest_first(map(chat.manifest, chat.reachable()))
        elif graph and start is not None:
            found = history.newest_first(map(chat.manifest, chat.above(start, without=())))
        else:
            found = list(chat.log(start))
        heads = _heads(chat)
        if as_json:
            output.as_json([manifest_json(chat, one, heads) for one in found[:max_count]])
        elif not found:
            say_empty(chat)
        elif graph:
            _draw(chat, found, heads, max_count)
        else:
            for one in found[:max_count]:
                _say(one, heads)
                output.say(f"    {_facts(chat, one)}", dim=True)


@click.command()
@chat_argument
@click.argument("manifest", default="HEAD")
@json_option
def show(chat_id: str, manifest: str, *, as_json: bool) -> None:
    """Show what a MANIFEST is: what was done, which files it changed, and its result as it is shown."""
    with project().chats.open(chat_id) as chat:
        if manifest == "HEAD" and chat.head() is None:
            output.as_json(chat.about().model_dump()) if as_json else say_empty(chat)
            return
        shown = chat.manifest(commit_names.resolve(chat, manifest))
        heads = _heads(chat)
        if as_json:
            record = shown.record.model_dump(mode="json", exclude_defaults=True)
            output.as_json(manifest_json(chat, shown, heads) | {"record": record})
            return
        output.say(f"{shown.id}{_names(shown, heads)}", bold=True)
        output.say(f"{shown.title}, {shown.created_at}, by {shown.record.by}")
        if len(shown.parents) > 1:
            joined = " and ".join(oid[: output.SHORT] for oid in shown.parents)
            output.say(f"joins {joined}")
        card = chat.card()
        if card.made_by is not None:
            output.say(f"in a chat that {card.made_by} made")
        origin = card.forked_from
        if origin is not None and shown.id == origin.manifest_id:
            output.say(f"forked here from {origin.chat_id}")
        if shown.message_id is not None:
            output.say(f"for the message {shown.message_id}")
        output.changes(chat.changes(shown.parent_id, shown.id))
        output.notes(shown.record.workspace)
        if shown.record.message is not None:
            _say_message(shown)
        if shown.record.call is not None:
            result_text.call(chat, shown)


def say_empty(chat: ChatStore) -> None:
    """Say that nothing has happened on a chat's branch, and what may."""
    where = chat.id if len(chat.branches()) == 1 else f"{chat.id} on {chat.active_branch()}"
    output.say(f"nothing has happened in {where} yet")
    output.say(
        f"next: covalt-git chat upload {chat.id} FILE, or covalt-git call {chat.id} TOOL", dim=True
    )


def manifest_json(
    chat: ChatStore, manifest: WorkspaceManifest, heads: dict[str, list[str]]
) -> JsonObject:
    """Return a manifest as ``--json`` prints it."""
    changes = chat.changes(manifest.parent_id, manifest.id)
    return {
        "id": manifest.id,
        "chat_id": manifest.chat_id,
        "parent_id": manifest.parent_id,
        "parents": list(manifest.parents),
        "tree_id": manifest.tree_id,
        "created_at": manifest.created_at,
        "source": manifest.source,
        "source_ref": manifest.source_ref,
        "made": manifest.made,
        "message_id": manifest.message_id,
        "title": manifest.title,
        "changes": [output.change_json(change) for change in changes],
        "branches": heads.get(manifest.id, []),
    }


def _draw(
    chat: ChatStore,
    found: Sequence[WorkspaceManifest],
    heads: dict[str, list[str]],
    max_count: int | None,
) -> None:
    """Print manifests beside the picture of their lines, that of the active branch the first."""
    head = chat.head()
    trunk = head if any(one.id == head for one in found) else None
    rows = history.layout(found, trunk=trunk)
    for row, manifest in list(zip(rows, found, strict=True))[:max_count]:
        first, below = graph_rows(row)
        for line in first[:-1]:
            output.say(line)
        _say(manifest, heads, before=f"{first[-1]}  ")
        output.say(f"{below.ljust(len(first[-1]))}  {_facts(chat, manifest)}", dim=True)


def _say(manifest: WorkspaceManifest, heads: dict[str, list[str]], *, before: str = "") -> None:
    failed = manifest.record.call is not None and manifest.record.call.status == "error"
    line = f"{before}{manifest.id[: output.SHORT]}{_names(manifest, heads)}  {manifest.title}"
    output.say(line, fg="red" if failed else None)


def _say_message(manifest: WorkspaceManifest) -> None:
    words = manifest.record.message
    assert words is not None
    output.say(f"message {manifest.record.id}")
    if words.ref is not None:
        output.say(f"the application's id: {words.ref}")
    if words.text is not None:
        output.say(f"{words.role}: {words.text}", prose=True)


def _facts(chat: ChatStore, manifest: WorkspaceManifest) -> str:
    changes = chat.changes(manifest.parent_id, manifest.id)
    return f"{manifest.created_at}  {_summary(changes)}"


def _heads(chat: ChatStore) -> dict[str, list[str]]:
    heads: dict[str, list[str]] = {}
    for one in chat.branches():
        if one.manifest_id is not None:
            heads.setdefault(one.manifest_id, []).append(f"*{one.name}" if one.active else one.name)
    return heads


def _names(manifest: WorkspaceManifest, heads: dict[str, list[str]]) -> str:
    return f" ({', '.join(heads[manifest.id])})" if manifest.id in heads else ""


def _summary(changes: Iterable[FileChange]) -> str:
    named = [f"{output.MARKS[change.kind][0]}{change.path}" for change in changes]
    more = f" and {len(named) - _MOST_NAMES} more" if len(named) > _MOST_NAMES else ""
    return ", ".join(named[:_MOST_NAMES]) + more or "no file changed"


_PLAIN = str.maketrans("│─├┤┼┬┴╭╮╰╯", "|-+++++++++")


def graph_rows(row: GraphRow) -> tuple[list[str], str]:
    """Return what stands before a manifest's lines, and before the line that tells more of it.

    The first of them has the dot, unless lines that end at the manifest come in above it.
    """
    onward = set(row.through) | set(row.below)
    lines = [_dots(row), _crossing(row, row.below, "╭╮┬", onward)]
    if set(row.above) - {row.lane}:
        lines.insert(0, _crossing(row, row.above, "╰╯┴", set(row.through) | set(row.above)))
    *first, last = (_encodable(line) for line in lines)
    return first, last


def _dots(row: GraphRow) -> str:
    passing = set(row.through)
    marks = ("*" if lane == row.lane else "│" if lane in passing else " " for lane in _lanes(row))
    return " ".join(marks).rstrip()


def _crossing(row: GraphRow, turning: tuple[int, ...], corners: str, upright: set[int]) -> str:
    """Return a line in which the ``turning`` lanes come to the manifest's own lane, or leave it.

    ``corners`` are the turns at the left end, at the right end, and between; a lane that also goes
    straight on, being ``upright`` beside the turn, is a fork.
    """
    others = set(turning) - {row.lane}
    left, right = min({row.lane, *others}), max({row.lane, *others})
    text = ""
    for lane in _lanes(row):
        if lane in others and lane in row.through:
            mark = "├" if lane == left else "┤" if lane == right else "┼"
        elif lane in others:
            mark = corners[0 if lane == left else 1 if lane == right else 2]
        elif lane == row.lane and others:
            mark = "┼" if left < lane < right else "├" if lane == left else "┤"
        elif lane in upright:
            mark = "│"
        else:
            mark = "─" if left < lane < right else " "
        text += mark + ("─" if left <= lane < right else " ")
    return text.rstrip()


def _lanes(row: GraphRow) -> range:
    return range(row.width)


def _encodable(line: str) -> str:
    """Return a line as this terminal can write it."""
    try:
        line.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return line.translate(_PLAIN)
    return line
