"""Laws that hold for every document of every format, and the documents on which they are checked."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from covalt_git.bundles.archive import pack_files
from covalt_git.bundles.archive_reader import unpack
from covalt_git.formats import conversion, document_reader, recognition
from covalt_git.formats.account import DocumentReading
from covalt_git.formats.documents import FormatError, parse
from covalt_git.formats.model import Format, leaves, pointer_text
from covalt_git.formats.table import FORMATS, TOOLSET
from covalt_git.formats.toolset_yaml import folder_document
from covalt_git.json_values.difference import same
from tests.examples import EVERY

REPOSITORY = Path(__file__).parents[2]
FIXTURES = REPOSITORY / "fixtures" / "formats"
WRITABLE = [one for one in FORMATS if one.write]
BOTH_WAYS = [one for one in FORMATS if one.read and one.write and one.kind != "folder"]


def documents_of(name: str) -> list[Path]:
    """Return the documents of a format: its fixtures."""
    return sorted(path for path in (FIXTURES / name).iterdir() if path.is_file())


def reading(content: bytes, source: Format, path: str = "input.json") -> DocumentReading:
    document = parse(content, path)
    return document_reader.read(document, recognition.recognize(document, source.name))


def converted(
    content: bytes, source: Format, target: Format, path: str = "input.json"
) -> conversion.Conversion:
    document = parse(content, path)
    return conversion.convert(document, recognition.recognize(document, source.name), target)


def messages(done: conversion.Conversion) -> list[str]:
    """Return what a conversion says: its notes, and the reasons of what is lost."""
    return [*(note.message for note in done.notes), *(item.reason for item in done.lost)]


def check_account(done: conversion.Conversion, value: Any) -> None:
    """Every value of the input is consumed, carried or lost, and only one of them."""
    lost = [one.pointer for one in done.lost if one.value]  # files of a folder have none
    placed = Counter([*map(pointer_text, [*done.consumed, *done.carried]), *lost])
    for loc in leaves(value):
        above = [pointer_text(loc[:end]) for end in range(len(loc) + 1)]
        assert sum(placed[one] for one in above) == 1, loc  # an extension can be one value

    assert all(one.reason for one in done.lost)


def check_identity(content: bytes, source: Format, path: str = "input.json") -> None:
    """A document comes back from its own format, and from ``toolset.yaml``, as it was."""
    before = reading(content, source, path)
    again = converted(content, source, source, path)
    (text,) = again.files.values()

    # A reference in place of a credential comes back in the form of the format, if it has any.
    has_credentials = any(note.secret for note in before.imported.notes)
    assert has_credentials or again.lost == ()
    check_account(again, before.document.value)
    after = reading(text, source, path)
    if has_credentials:
        check_through_toolsets(content, source, before, path, again.files)
        return
    assert same(after.document.value, before.document.value)
    assert source.kind == "toml" or ordered(after.document.value) == ordered(before.document.value)
    assert after.imported.toolsets == before.imported.toolsets
    assert after.imported.places == before.imported.places
    if before.imported.toolsets:
        check_through_toolsets(content, source, before, path, again.files)


def check_through_toolsets(
    content: bytes,
    source: Format,
    before: DocumentReading,
    path: str,
    direct: dict[str, bytes],
) -> None:
    """``toolset.yaml``, in a ZIP, is valid and has everything that the document had, in its order.

    The file is the same as the one that is written directly; TOML has its tables after other keys.
    """
    if source.name == "mcp-tools" and before.imported.toolsets[0].get("tools"):
        with pytest.raises(FormatError, match="only has definitions"):
            converted(content, source, TOOLSET, path)
        return
    stored = converted(content, source, TOOLSET, path)
    check_account(stored, before.document.value)
    # A server that only the format's own program can start is lost, as is what a user would miss, and comes back all the
    # same.
    missed = {note.message for note in before.imported.without_effect if note.is_lost}
    assert all(one.reason.startswith("left out: ") or one.reason in missed for one in stored.lost)
    packed = pack_files((name, one, False) for name, one in sorted(stored.files.items()))
    folder = folder_document("t", {one.path: one.content for one in unpack(packed, "t")})
    back = conversion.convert(folder, TOOLSET, source)
    check_account(back, folder.value)
    (text,) = back.files.values()

    if not any(note.secret for note in before.imported.notes):
        assert same(parse(text, path).value, before.document.value)
        assert back.files == direct


def ordered(value: Any) -> str:
    return json.dumps(value)


def check_all_targets(content: bytes, source: Format, path: str = "input.json") -> None:
    """The account is exact for each target, and the same input gives the same bytes.

    The bytes of one target in ``EVERY``, which the document decides, are compared.
    """
    value = reading(content, source, path).document.value
    for number, target in enumerate(WRITABLE, len(content)):
        try:
            done = converted(content, source, target, path)
        except FormatError:
            continue
        check_account(done, value)
        if number % EVERY == 0:
            assert converted(content, source, target, path) == done


def as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
