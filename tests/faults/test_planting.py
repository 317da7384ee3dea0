"""Every recorded fault can still be planted, where its record says or wherever its function went."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.faults.__main__ import FOUND, RECORDED
from tests.faults.planting import REPOSITORY, Fault, LostFaultError, parsed, read_faults

FAULTS = read_faults()


def is_other_code(before: str, after: str, line: int) -> bool:
    """Return whether the top-level statements at a line differ; all others have the same text."""
    place, statement = next(
        (place, statement)
        for place, statement in enumerate(parsed(before).body)
        if line <= (statement.end_lineno or statement.lineno)
    )
    return ast.dump(statement) != ast.dump(ast.parse(after).body[place])


def test_ids_of_faults_differ() -> None:
    assert len({one.id for one in FAULTS}) == len(FAULTS)


def test_each_fault_has_a_test_that_exists() -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    finders = json.loads(FOUND.read_text(encoding="utf-8"))

    def is_there(test: str) -> bool:
        file, _, function = test.partition("[")[0].partition("::")
        path = REPOSITORY / file
        return path.is_file() and f"def {function}" in path.read_text(encoding="utf-8")

    for fault in FAULTS:
        tests = (*fault.tests, finders.get(fault.id) or "", *recorded.get(fault.id, ()))
        assert any(map(is_there, tests)), fault.id


@pytest.mark.parametrize("fault", FAULTS, ids=[one.id for one in FAULTS])
def test_a_fault_changes_its_file_and_leaves_it_python(fault: Fault) -> None:
    place = fault.planted(REPOSITORY)

    assert is_other_code(place.file.read_text(encoding="utf-8"), place.text, place.first_line)


def test_a_fault_follows_its_function_to_another_file(tmp_path: Path) -> None:
    moved = tmp_path / "covalt_git/new/home.py"
    moved.parent.mkdir(parents=True)
    moved.write_text("x = 1\n\n\ndef f(a):\n    return (\n        a > 1\n    )\n")
    fault = Fault("f", "covalt_git/old.py", "f", "a > 1", "a >= 1")

    place = fault.planted(tmp_path)

    assert place.file == moved
    assert place.text == moved.read_text().replace("a > 1", "a >= 1")
    assert (place.first_line, place.last_line) == (5, 6)
    with pytest.raises(LostFaultError):
        replace(fault, function="g").planted(tmp_path)
