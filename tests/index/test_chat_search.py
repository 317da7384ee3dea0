"""Search in chats: what is found, in which order, and what the index says that it did not read."""

import random
import re
import shutil
import unicodedata
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.file_edits import uploads
from covalt_git.file_edits.uploads import NewFile
from covalt_git.index import file_rows
from covalt_git.index.index import Index
from covalt_git.index.search_words import excerpt, parse
from covalt_git.workspaces.writing import writing
from tests.examples import examples
from tests.index.rows import chats_of, finish, open_index, synced
from tests.workspaces.stores import add_message

WORDS = [
    "coffee",
    "Coffee-Bar",
    "café",
    "cafe\u0301",
    "CAFÉS",
    "read_file",
    "file",
    "reader",
    "read",
]
WORDS += [
    "Straße",
    "strasse",
    "我喜欢咖啡",
    "咖啡",
    "Ἀθήνα",
    "x" * 70,
    "x" * 80,
    "NEAR(",
    'a"b',
    "*",
    "…",
]
QUERIES = [
    *WORDS,
    "co",
    "c",
    "STRASS",
    "咖",
    "喜欢",
    '"read file"',
    '"file coffee"',
    '"rea',
    '"',
    "AND",
    "^",
    "-file",
]


class Talk(NamedTuple):
    """A project with a chat, and the texts of its messages by their ids."""

    root: Path
    texts: dict[str, str]


@pytest.fixture(scope="module")
def talk(lively_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Talk:
    chance = random.Random(7)
    root = tmp_path_factory.mktemp("talk") / "project"
    shutil.copytree(lively_project, root, symlinks=True)
    texts = {}
    with chats_of(root).new("talk") as chat:
        for _ in range(60):
            text = " ".join(chance.choices(WORDS, k=chance.randint(1, 4)))
            texts[str(chat.manifest(add_message(chat, text)).source_ref)] = text
    synced(root)
    return Talk(root, texts)


def plain(text: str) -> list[str]:
    """Return the words of a text, one by one, without the engine's rules for speed."""
    split: list[str] = []
    spaced = "".join(f" {letter} " if "\u4e00" <= letter <= "\u9fff" else letter for letter in text)
    for word in re.split(r"[^\w\u0301]|_", spaced):
        bare = "".join(
            letter
            for letter in unicodedata.normalize("NFD", word).casefold()
            if not unicodedata.combining(letter)
        )
        split += [bare[:64]] if bare else []
    return split


def has(text: str, query: str) -> bool:
    """Return whether a text has the words of a query, by comparing each place."""
    every, parts = plain(text), query.split('"')
    phrases, closed = [], False
    for at, part in enumerate(parts):
        own = [plain(part)] if at % 2 else [plain(word) for word in part.split()]
        # A part without words, such as " * ", changes nothing.
        if any(own):
            phrases += [phrase for phrase in own if phrase]
            closed = at % 2 == 1 and at < len(parts) - 1
    if not phrases:
        return False

    def is_at(at: int, phrase: list[str], *, opened: bool) -> bool:
        there = every[at : at + len(phrase)]
        if len(there) < len(phrase) or there[:-1] != phrase[:-1]:
            return False
        return there[-1].startswith(phrase[-1]) if opened else there[-1] == phrase[-1]

    last = len(phrases) - 1
    return all(
        any(
            is_at(at, phrase, opened=number == last and not closed and len(phrase[-1]) > 1)
            for at in range(len(every))
        )
        for number, phrase in enumerate(phrases)
    )


def messages(index: Index, query: str) -> list[str]:
    return [
        match.id
        for match in index.search_texts(
            "messages", parse(query), lambda row: row.chat_id == "talk", 999
        )
    ]


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from(QUERIES), min_size=1, max_size=3).map(" ".join))
def test_a_search_finds_the_messages_with_all_of_its_words(talk: Talk, query: str) -> None:
    with open_index(talk.root) as index:
        matches = messages(index, query)

    assert sorted(matches) == sorted(key for key, text in talk.texts.items() if has(text, query))
    for key in matches:
        assert any(part.match for part in excerpt(parse(query), talk.texts[key]))


def test_phrases_come_first_and_then_the_newest(root: Path) -> None:
    with chats_of(root).new("order") as chat:
        for text in (
            "red apple",
            "apples are red",
            "an apple, a red one",
            "apple red",
            "apple redder",
        ):
            add_message(chat, text)
    with open_index(root) as index:
        index.sync()
        matches = index.search_texts("messages", parse("apple red"), lambda _: True, 9)
        with index.chats.as_left("order") as chat:
            texts = [chat.manifest(match.source).record.message for match in matches]

    assert [text and text.text for text in texts] == [
        "apple red",
        "an apple, a red one",
        "red apple",
        "apple redder",
    ]


def paths(index: Index, query: str) -> set[tuple[str, str]]:
    every = parse(query)
    return {
        (match.chat_id, match.id)
        for texts in ("names", "contents")
        for match in index.search_texts(texts, every, lambda _: True, 99)
    }


def test_files_are_those_of_the_active_branch(root: Path) -> None:
    def search(query: str) -> set[tuple[str, str]]:
        with open_index(root) as index:
            index.sync_chats()
            index.sync_files()
            return paths(index, query)

    synced(root)
    assert search("hello") == {("c1", "b.txt")}
    assert search("on idea") == {("c1", "c.txt")}
    with chats_of(root).open("c1") as chat, writing(chat) as writer:
        (chat.workspace / "b.txt").write_text("goodbye")
        (chat.workspace / "copy.txt").write_text("goodbye")
        writer.commit_changes()
        assert search("hello") == set()
        assert search("goodbye") == {("c1", "b.txt"), ("c1", "copy.txt")}
        (chat.workspace / "b.txt").unlink()
        writer.commit_changes()
        assert search("goodbye") == {("c1", "copy.txt")}
        writer.checkout("main")
    assert search("hello") == {("c1", "b.txt")}
    assert search("goodbye") == search("on idea") == set()
    with open_index(root) as index:
        unused = (
            "SELECT id FROM file_contents WHERE id NOT IN (SELECT content_id FROM active_files)"
        )
        assert index.connection.execute(unused).fetchall() == []


def test_a_search_reads_a_part_of_many_files_and_counts_the_others(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_rows, "MOST_BYTES", 50)
    with chats_of(root).new("many") as chat, writing(chat) as writer:
        uploads.upload(
            writer,
            [
                NewFile("binary.bin", b"orchid\0"),
                NewFile("latin.txt", b"orchid \xe9"),
                NewFile("large.txt", b"orchid " * 10),
                *(NewFile(f"{number}.txt", b"orchid") for number in range(5)),
            ],
        )
    with open_index(root) as index:
        index.sync_chats()
        index.sync_files(limit=None)
        index.connection.execute("DELETE FROM active_files")
        index.connection.execute("DELETE FROM active_trees")
    with open_index(root) as index:
        counts = []
        for _ in range(6):
            index.sync_files(limit=5)
            every = index.unsearched_files()
            counts.append(sum(files for _, reason, files in every if reason == "pending"))
        assert counts[0] > counts[1] > counts[-1] == 0
        assert paths(index, "orchid") == {("many", f"{number}.txt") for number in range(5)}
        assert ("many", "binary.bin") in paths(index, "bin")
        assert {(reason, files) for chat, reason, files in every if chat == "many"} == {
            ("binary", 2),
            ("large", 1),
        }

    monkeypatch.setattr(file_rows, "MOST_FILES", 6)
    monkeypatch.setattr(file_rows, "MOST_TOTAL_BYTES", 3)
    with open_index(root) as index:
        index.rebuild()
        full = {chat: files for chat, reason, files in index.unsearched_files() if reason == "full"}
        assert paths(index, "orchid") == set()
        assert full["many"] >= 2


def test_arguments_of_calls_are_found_by_their_values(root: Path) -> None:
    with chats_of(root).open("c1") as chat, writing(chat) as writer:
        finish(writer, "garden-plan.md", b"seeds")
    with open_index(root) as index:
        index.sync()

        def calls(query: str) -> list[str]:
            rows = index.search_texts("arguments", parse(query), lambda _: True, 99)
            return [row.object for row in rows]

        assert calls("garden") == calls('"garden plan md"') == ["garden-plan.md"]
        assert calls("seeds") == []
