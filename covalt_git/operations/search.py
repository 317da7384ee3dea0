"""Operation that searches everything of a project that the role may see."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.catalog.accepted_tools import without_pulled
from covalt_git.errors import CovaltError
from covalt_git.index.search_words import excerpt, is_match, parse, position
from covalt_git.index.text_rows import MOST_TEXT, argument_text
from covalt_git.index.tool_match import matching_text
from covalt_git.models.calls import MAY_BE_SCRIPTS
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, operation
from covalt_git.operations.tools import visible_toolsets
from covalt_git.trust.consents import NOT_TRUSTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from covalt_git.index.chat_search import SearchedTexts, TextMatch
    from covalt_git.index.search_words import Query

SearchedKind = Literal["chat", "message", "file", "call", "tool", "toolset"]

MOST_TOOLS = 500
"""Tools with any of the words, among which those with all of them are found."""

_LINE_BREAK = re.compile(r"\r\n?|\n")
"""The line breaks of the pages that show a file."""

_ROLE = 60
"""Characters of a message's role in a result."""


class Search(Request):
    """Request: what to search for, and where."""

    query: str = Field(
        max_length=500,
        description="Words that a result has all of, or phrases in quotes. The last word may be a beginning. No other character has a meaning.",
    )
    kind: SearchedKind | None = Field(None, description="null: results of every kind.")
    chat_id: str | None = Field(
        None, max_length=200, description="Only messages, files and calls of this chat."
    )
    limit: int = Field(10, ge=1, le=200, description="Number of results of each kind.")


class ExcerptPart(Result):
    """A part of the text of a result."""

    text: str
    match: bool = Field(description="Whether it is a word of the query.")


class SearchHit(Result):
    """A result, and where it is."""

    kind: SearchedKind
    id: str = Field(description="Of the chat, message, call, tool or toolset; the path of a file.")
    chat_id: str | None = Field(description="Of a chat, message, file or call.")
    branch: str | None = Field(description="Of a file: the active branch of its chat.")
    title: str = Field(
        description="The name, the path, the role of a message, or the tool and the object of a call."
    )
    line: int | None = Field(
        description="Of a file whose text matches: the line of the first match, from 1."
    )
    at: str | None = Field(description="When a chat or message was created, or a call started.")
    excerpt: tuple[ExcerptPart, ...]


class SearchGroup(Result):
    """Results of one kind, the best first."""

    kind: SearchedKind
    hits: tuple[SearchHit, ...]
    more: bool = Field(description="Whether there are more results than `limit`.")


class UnsearchedFiles(Result):
    """Files whose text is not searched, but whose names are; the names of pending ones are not searched either."""

    reason: Literal["binary", "large", "full", "pending"] = Field(
        description="full: the index has its largest size, or the chat too many files. "
        "pending: more files changed than one search reads; the next search or `covalt-git index rebuild` reads them."
    )
    files: int


class SearchResults(Result):
    """Results by kind, without the kinds that have none."""

    groups: tuple[SearchGroup, ...]
    unsearched: tuple[UnsearchedFiles, ...]


@operation(errors=(404,))
def search(context: Context, request: Search) -> SearchResults:
    """Search messages, files of the active branches, arguments of calls, chats, tools and toolsets.

    A result has all words of the query, without regard to case and diacritics.  Exact phrases come first, then the newest.
    Tools are found as by ``search_tools``, also by other forms of a word and by a word with a typing error, but only those
    with all words; their excerpt is the text that has the words.  Only what the role finds in lists is found and counted.
    """
    if request.chat_id is not None:
        context.chat(request.chat_id)  # it may not exist
    scope = _Scope(context, request)
    kinds: dict[SearchedKind, Callable[[], Iterable[SearchHit]]] = {
        "chat": scope.chats,
        "message": scope.messages,
        "file": scope.files,
        "call": scope.calls,
        "tool": scope.tools,
        "toolset": scope.toolsets,
    }
    chosen = [kind for kind in kinds if request.kind in {None, kind}]
    if {"chat", "message", "file", "call"} & {*chosen}:
        context.chat_index().sync_chats()
    if "file" in chosen:
        context.chat_index().sync_files()
    groups = []
    for kind in chosen if scope.query.phrases else ():
        hits = tuple(kinds[kind]())
        if hits:
            more = len(hits) > request.limit
            groups.append(SearchGroup(kind=kind, hits=hits[: request.limit], more=more))
    return SearchResults(
        groups=tuple(groups), unsearched=tuple(scope.unsearched()) if "file" in chosen else ()
    )


class _Scope:
    """One search of one principal: each method returns the results of a kind, one more than the limit."""

    def __init__(self, context: Context, request: Search) -> None:
        self.context = context
        self.request = request
        self.query = parse(request.query)
        self.most = request.limit + 1
        self.chat_exists = cache(context.chat_exists)
        self.sees = cache(context.visibility.sees)

    def chats(self) -> Iterable[SearchHit]:
        if self.request.chat_id is not None:
            return
        count = 0
        for chat_id, title, created_at in self.context.chat_index().titles():
            text = f"{title} ({chat_id})" if title else chat_id
            if count < self.most and is_match(self.query, text) and self.chat_exists(chat_id):
                count += 1
                yield self._hit(
                    "chat", chat_id, text, chat_id=chat_id, title=title or chat_id, at=created_at
                )

    def messages(self) -> Iterable[SearchHit]:
        for match in self._matches("messages", self._is_visible):
            role, text = "", ""
            with suppress(CovaltError):  # a damaged store still has its rows
                message = self.context.chat(match.chat_id).manifest(match.source).record.message
                if message is not None:
                    role, text = message.role[:_ROLE], message.text or message.ref or ""
            yield self._of("message", match, text, title=role)

    def files(self) -> Iterable[SearchHit]:
        if not self.context.may_read("workspace:list_files", {"manifest": "HEAD"}):
            return
        named = self._matches("names", self._is_visible)
        names = {(match.chat_id, match.id) for match in named}

        def is_other(match: TextMatch) -> bool:
            is_new = (match.chat_id, match.id) not in names and self._is_visible(match)
            args = {"path": match.id, "manifest": "HEAD"}
            return is_new and self.context.may_read("workspace:read_file", args)

        for match in named:
            yield self._of("file", match, match.id, title=match.id)
        for match in self._matches("contents", is_other, self.most - len(named)):
            text = ""
            with suppress(CovaltError):
                text = self.context.chat(match.chat_id).store.read_blob(match.source).decode()
            yield self._of("file", match, text, title=match.id, has_lines=bool(text))

    def calls(self) -> Iterable[SearchHit]:
        for match in self._matches("arguments", self._sees_call):
            title = f"{match.tool_id} {match.object}".rstrip()
            yield self._of("call", match, argument_text(match.source), title=title)

    def tools(self) -> Iterable[SearchHit]:
        if self.request.chat_id is not None:
            return
        index = self.context.toolset_index()
        tools = self.context.catalog.search(index, self.request.query, limit=MOST_TOOLS)
        # A search of agents also finds tools with one of the words; here, each result has all of them.
        whys = {
            tool.tool_id: why
            for tool in tools
            if (why := matching_text(self.request.query, tool)) is not None
        }
        tools = [tool for tool in tools if tool.tool_id in whys][: self.most]
        trusted = {tool.tool_id for tool in without_pulled(self.context.project.root, tools)}
        for tool in tools:
            # A user finds what a pull has accepted, to review it; agents do not.
            note = "" if tool.tool_id in trusted else f" ({NOT_TRUSTED})"
            query, text = whys[tool.tool_id]
            yield self._hit("tool", tool.tool_id, text, title=f"{tool.name}{note}", marked=query)

    def toolsets(self) -> Iterable[SearchHit]:
        if self.request.chat_id is not None:
            return
        rows = [
            row
            for row in visible_toolsets(self.context)
            if is_match(self.query, f"{row['id']}\n{row['name']}\n{row['description']}")
        ]
        for row in rows[: self.most]:
            title = row["name"] or row["id"]
            yield self._hit("toolset", row["id"], row["description"] or "", title=title)

    def unsearched(self) -> Iterable[UnsearchedFiles]:
        """Return the numbers of files whose text is not searched, of the chats that are searched."""
        counts: Counter[str] = Counter()
        for chat_id, reason, files in self.context.chat_index().unsearched_files():
            if self._is_searched(chat_id):
                counts[reason] += files
        for reason, files in sorted(counts.items()):
            yield UnsearchedFiles.model_validate({"reason": reason, "files": files})

    def _matches(
        self, texts: SearchedTexts, is_wanted: Callable[[TextMatch], bool], most: int | None = None
    ) -> list[TextMatch]:
        limit = self.most if most is None else most
        index = self.context.chat_index()
        return index.search_texts(texts, self.query, is_wanted, limit) if limit else []

    def _is_searched(self, chat_id: str) -> bool:
        return self.request.chat_id in {None, chat_id} and self.chat_exists(chat_id)

    def _is_visible(self, match: TextMatch) -> bool:
        return self._is_searched(match.chat_id)

    def _sees_call(self, match: TextMatch) -> bool:
        if not self._is_visible(match) or not self.sees(match.tool_id):
            return False
        if not match.tool_id.startswith(MAY_BE_SCRIPTS):
            return True
        call = self.context.chat_index().call(match.chat_id, match.id)
        return call is not None and self.context.visibility.sees_call(call.tool_id, call.result)

    def _of(
        self,
        kind: SearchedKind,
        match: TextMatch,
        text: str,
        *,
        title: str,
        has_lines: bool = False,
    ) -> SearchHit:
        return self._hit(
            kind,
            match.id,
            text,
            title=title,
            chat_id=match.chat_id,
            branch=match.branch,
            at=match.at,
            has_lines=has_lines,
        )

    def _hit(
        self,
        kind: SearchedKind,
        hit_id: str,
        text: str,
        *,
        title: str,
        chat_id: str | None = None,
        branch: str | None = None,
        at: str | None = None,
        marked: Query | None = None,
        has_lines: bool = False,
    ) -> SearchHit:
        query, text = marked or self.query, text[:MOST_TEXT]
        first = position(query, text)
        parts = tuple(map(ExcerptPart.model_validate, excerpt(query, text, first)))
        return SearchHit(
            kind=kind,
            id=hit_id,
            chat_id=chat_id,
            branch=branch,
            title=title,
            line=len(_LINE_BREAK.findall(text, 0, first)) + 1 if has_lines else None,
            at=at,
            excerpt=parts,
        )
