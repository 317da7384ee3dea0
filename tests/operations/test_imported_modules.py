"""Syntax errors of files that tools import: seen by validate, lists and reviews, and gone with their repair."""

from typing import Any

from tests.operations_client import Operations

PATH = "tools/texts.py"


def test_a_broken_imported_file_is_reported_wherever_the_entrypoint_is(operate: Operations) -> None:
    folder = operate.root / "toolsets/app-builder"
    entrypoint = folder / "tools/files.py"
    entrypoint.write_text(f"from tools.texts import lines\n{entrypoint.read_text()}")
    good = "def lines(text: str) -> list[str]:\n    return text.split()\n"
    (folder / PATH).write_text(good)

    def codes() -> list[Any]:
        validation = operate("validate")
        return [
            (problem["path"], problem["line"], problem["col"], problem["code"])
            for problem in validation["problems"]
            if "severity" in problem and problem["severity"] == "error"
        ]

    assert codes() == []
    assert operate("get_toolset", toolset_id="app-builder")["sound"]

    (folder / PATH).write_text(good.replace("]:", "]"))

    # Only the imported file has changed since the toolset was read.
    assert codes() == [(f"toolsets/app-builder/{PATH}", 1, 34, "CG306")]
    assert not operate("get_toolset", toolset_id="app-builder")["sound"]

    base = operate("get_toolset_file", toolset_id="app-builder", path=PATH)["base"]
    request = {"toolset_id": "app-builder", "path": PATH, "content": good, "base": base}
    review = operate("update_toolset_file", **request, dry_run=True)

    assert (review["solved"], review["problems"]) == (1, [])
