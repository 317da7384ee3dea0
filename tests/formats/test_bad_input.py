import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pytest
import yaml

from covalt_git.errors import CovaltError
from covalt_git.formats import conversion, documents, recognition
from covalt_git.formats.model import with_values
from tests.examples import named
from tests.formats import laws

CASES: dict[str, Any] = yaml.load(
    Path(__file__).with_name("bad_input.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


@pytest.mark.parametrize("name", CASES)
def test_all_problems_have_a_place(name: str) -> None:
    case = CASES[name]
    path = case.get("path", "input.json")
    content = case["text"].encode("utf-8", "surrogatepass")
    with pytest.raises(CovaltError) as caught:
        convert(content, path, case.get("from"))

    found = [f"{one.line}:{one.col} {one.code}" for one in caught.value.problems]
    assert found == case["problems"], caught.value
    assert caught.value.problems or caught.value.hint


def convert(content: bytes, path: str, source: str | None) -> None:
    document = documents.parse(content, path)
    found = recognition.recognize(document, source)
    conversion.convert(document, found, recognition.find_format("toolset"))


def test_deep_values_are_refused() -> None:
    for text in ("[" * 65 + "]" * 65, "[" * 100_000, '{"a":' * 65 + "1" + "}" * 65):
        with pytest.raises(CovaltError) as caught:
            documents.parse(text.encode(), "input.json")
        assert caught.value.problems


def test_large_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 100)

    with pytest.raises(CovaltError) as caught:
        documents.parse(b"{}" + b" " * 99, "input.json")
    assert [one.code for one in caught.value.problems] == ["CG107"]


@pytest.mark.parametrize(
    "stored",
    ["{names: [a]}", "{names: {a: 1}}", "{set: {x: 1}}", "{absent: [5]}", "[]", "{set: []}"],
)
def test_extensions_of_another_form_are_reported_as_one_value(stored: str) -> None:
    text = 'id: a\nname: A\nversion: "1"\nmcp_servers: [{id: b, command: c}]\n'
    text += f"extensions: {{vscode: {stored}, cjson: {{set: {{/a: 1, /b: 2}}}}}}\n"
    document = documents.parse(text.encode(), "toolset.yaml")
    done = conversion.convert(
        document, recognition.find_format("toolset"), recognition.find_format("vscode")
    )
    lost = [one.pointer for one in done.lost if one.pointer.startswith("/extensions")]

    assert lost == ["/extensions/cjson", "/extensions/vscode"]


OF_ANOTHER_KIND: list[Any] = [None, 3, ["x"], {"x": 3}, []]


def _documents() -> dict[str, Any]:
    """Return the values of the fixtures by the path; those of several YAML documents are a list of them."""
    return {
        str(file.relative_to(laws.FIXTURES)): documents.parse(file.read_bytes(), file.name).value
        for file in sorted(laws.FIXTURES.rglob("*"))
        if file.suffix in (".json", ".yaml", ".toml")
    }


DOCUMENTS = _documents()
LONG_TO_CHANGE = {
    "genai-toolbox/documents.yaml",
    "mcp-server-json/containers.json",
    "openapi/shelter.json",
}
"""Documents of formats of which another document is tried, or whose compiler has tests of its own."""


def places(value: Any, loc: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the place of a value and of each value in it."""
    yield loc
    entries = (
        value
        if isinstance(value, dict)
        else dict(enumerate(value))
        if isinstance(value, list)
        else {}
    )
    for key, inner in entries.items():
        yield from places(inner, (*loc, key))


def place_of_each_kind(document: Any) -> list[tuple[str | int, ...]]:
    """Return the first place of each kind: the items of a list are of one kind."""
    kinds: dict[tuple[str, ...], tuple[str | int, ...]] = {}
    for loc in places(document):
        kinds.setdefault(tuple("*" if isinstance(key, int) else key for key in loc), loc)
    return [*kinds.values()]


def covering_changes(document: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield a place of each kind with one other value: a document has each value at some of them."""
    yield from zip(place_of_each_kind(document), cycle(OF_ANOTHER_KIND), strict=False)


def all_changes(document: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    yield from product(places(document), OF_ANOTHER_KIND)


@pytest.mark.parametrize(
    "changes_of", [covering_changes, pytest.param(all_changes, marks=pytest.mark.rest)]
)
@pytest.mark.parametrize("path", named(DOCUMENTS, *(DOCUMENTS.keys() - LONG_TO_CHANGE)))
def test_a_value_of_another_kind_at_any_place_is_converted_or_refused(
    path: str, changes_of: Callable[[Any], Iterable[tuple[tuple[str | int, ...], Any]]]
) -> None:
    source = recognition.find_format(path.partition("/")[0])
    document = DOCUMENTS[path]

    for loc, value in changes_of(document):
        changed = json.dumps(with_values(document, {loc: value})).encode()
        with suppress(CovaltError):
            parsed = documents.parse(changed, "input.json")
            conversion.convert(
                parsed,
                recognition.recognize(parsed, source.name),
                recognition.find_format("toolset"),
                skip_bad=True,
            )
