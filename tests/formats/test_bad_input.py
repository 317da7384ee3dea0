from pathlib import Path
from typing import Any

import pytest
import yaml

from covalt_git.errors import CovaltError
from covalt_git.formats import conversion, documents

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
    found = conversion.recognize(document, source)
    conversion.convert(document, found, conversion.find_format("toolset"))


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
        document, conversion.find_format("toolset"), conversion.find_format("vscode")
    )
    lost = [one.pointer for one in done.lost if one.pointer.startswith("/extensions")]

    assert lost == ["/extensions/cjson", "/extensions/vscode"]
