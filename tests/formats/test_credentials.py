"""No credential of an input is in any output, report or error."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from covalt_git.errors import CovaltError
from covalt_git.formats import conversion
from covalt_git.formats.documents import FormatError, parse
from covalt_git.formats.literal_credentials import replace_credentials
from tests.formats import laws

CANARY = "Zq8vN3kT7wLp2RxB5mYc"
CASES: dict[str, Any] = yaml.load(
    Path(__file__).with_name("credentials.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
)


@pytest.mark.parametrize("name", CASES["replaced"])
def test_a_credential_becomes_a_reference(name: str) -> None:
    case = CASES["replaced"][name]
    value, notes = replace_credentials(with_canary(case["input"]))

    assert value == case["output"]
    assert [note.secret for note in notes] == case["secrets"]


@pytest.mark.parametrize("name", CASES["unchanged"])
def test_other_values_stay(name: str) -> None:
    value = CASES["unchanged"][name]

    assert replace_credentials(value) == (value, [])


@pytest.mark.parametrize("name", CASES["documents"])
def test_no_output_has_the_credential(name: str) -> None:
    text = json.dumps(with_canary(CASES["documents"][name]))
    document = parse(text.encode(), "input.json")
    source = conversion.recognize(document, name)
    for target in laws.WRITABLE:
        try:
            done = conversion.convert(document, source, target)
        except FormatError:  # Cognipeer has no documents with several tools
            continue

        assert CANARY not in repr(done)
        assert any(note.secret for note in done.notes)


def test_no_error_has_the_credential() -> None:
    for text in (
        '{"schema": "x", "toolsets": [{"id": "CANARY", "kind": "CANARY"}]',
        '{"a": CANARY}',
    ):
        with pytest.raises(CovaltError) as caught:
            parse(text.replace("CANARY", f"ghp_{CANARY}{CANARY[:16]}").encode(), "input.json")
        assert CANARY not in str(caught.value)


def with_canary(value: Any) -> Any:
    return json.loads(re.sub("CANARY", CANARY, json.dumps(value)))
