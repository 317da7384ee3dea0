"""Files of toolsets: fixed and changed exactly, with their effect shown first, or not at all."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from covalt_git.toolsets import file_changes
from tests.examples import rest
from tests.operations_client import Operations
from tests.workspaces.stores import git

MANIFEST = "toolsets/app-builder/toolset.yaml"


def change(operate: Operations, path: str, content: str, **more: Any) -> Any:
    """Change a file of the toolset app-builder that was just read."""
    base = operate("get_toolset_file", toolset_id="app-builder", path=path)["base"]
    request = {"toolset_id": "app-builder", "path": path, "content": content, "base": base}
    return operate("update_toolset_file", **request | more)


def misspell(root: Path) -> bytes:
    """Misspell two keys of a manifest, and return its bytes."""
    file = root / MANIFEST
    content = file.read_bytes().replace(b"entrypoint", b"entrypont", 1)
    file.write_bytes(content.replace(b"renderer_config", b"renderer_confg", 1))
    return file.read_bytes()


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return the mode and the bytes of each file of the toolsets."""
    files = (file for file in (root / "toolsets").rglob("*") if file.is_file())
    return {str(file): (file.stat().st_mode, file.read_bytes()) for file in files}


@pytest.mark.parametrize(
    "text", ["\ufeffa = 1\r\nb = 2\r\n", rest("a = 1\rb = 2"), rest("a = 'é\u2028'\n\n")]
)
def test_the_written_bytes_are_exactly_those_of_the_request(operate: Operations, text: str) -> None:
    file = operate.root / "toolsets/app-builder/tools/files.py"
    file.chmod(0o750)
    others = snapshot(operate.root)

    answer = change(operate, "tools/files.py", text)

    assert answer["written"]
    assert file.read_bytes() == text.encode()
    assert file.stat().st_mode & 0o777 == 0o750
    assert answer["sha256"] == sha256(text.encode()).hexdigest()
    assert operate("get_toolset_file", toolset_id="app-builder", path="tools/files.py")["text"] == (
        text
    )
    # No temporary file is left, and no other file has changed.
    assert others.keys() == snapshot(operate.root).keys()
    assert {*others.items()} - {*snapshot(operate.root).items()} == {(str(file), others[str(file)])}


def test_the_difference_of_a_change_is_a_patch_for_git(
    operate: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = operate.root / "toolsets/app-builder/tools/files.py"
    old = file.read_bytes()
    answer = change(operate, "tools/files.py", "a = 1\r\nb = '\f'")
    (operate.root.parent / "patch").write_bytes(answer["diff"].encode())

    git(operate.root, "apply", "-R", str(operate.root.parent / "patch"))
    assert file.read_bytes() == old
    # The file of the last commit is there to restore.
    file.write_text("x")
    monkeypatch.chdir(operate.root)
    git(operate.root, *answer["undo"].removeprefix("git ").split())
    assert file.read_bytes() == old


def test_a_dry_run_writes_nothing_and_shows_problems_and_authority(operate: Operations) -> None:
    old = snapshot(operate.root)
    text = (operate.root / MANIFEST).read_text()
    assert "requires_confirmation: true" in text
    wider = text.replace("requires_confirmation: true", "requires_confirmation: false")

    answer = change(operate, "toolset.yaml", wider + "nonsense: 1\n", dry_run=True)
    assert [problem["code"] for problem in answer["problems"]] == ["CG201"]
    assert (answer["changed"], answer["written"]) == (True, False)

    answer = change(operate, "toolset.yaml", wider, dry_run=True)
    assert answer["problems"] == []
    assert answer["grown"]
    assert [(one["verdict"], one["subject"]) for one in answer["authority"]] == [
        ("widening", "app-builder:run_command")
    ]
    assert snapshot(operate.root) == old


def test_a_namespace_that_another_toolset_has_is_a_problem_before_it_is_saved(
    operate: Operations,
) -> None:
    text = (operate.root / MANIFEST).read_text()
    server = "mcp_servers: [{id: data-lab, command: python, args: [x.py]}]\n"

    answer = change(operate, "toolset.yaml", text + server, dry_run=True)

    places = [f"{problem['path']} {problem['code']}" for problem in answer["problems"]]
    assert f"{MANIFEST} CG401" in places


@pytest.mark.rest
def test_a_review_counts_the_clashes_that_it_solves_also_in_files_of_other_toolsets(
    operate: Operations,
) -> None:
    server = "mcp_servers: [{id: ID, command: python, args: [x.py]}]\n"
    for name in ("app-builder", "data-lab"):
        with (operate.root / f"toolsets/{name}/toolset.yaml").open("a") as file:
            file.write(server.replace("ID", "shared"))

    for name in ("app-builder", "data-lab"):
        shown = operate("get_toolset_file", toolset_id=name, path="toolset.yaml")
        request = {"toolset_id": name, "path": "toolset.yaml", "base": shown["base"]}
        renamed = shown["text"].replace("id: shared", "id: other")
        answer = operate("update_toolset_file", **request, content=renamed, dry_run=True)
        assert (answer["solved"], codes(answer)) == (1, ["CG304"])

        text = f"{shown['text']}# a note\n"
        answer = operate("update_toolset_file", **request, content=text, dry_run=True)
        # `validate` and the pages list a clash in the later one of the two files.
        clash = [] if name == "app-builder" else ["CG401"]
        assert (answer["solved"], codes(answer)) == (0, [*clash, "CG304"])


def codes(answer: Any) -> list[str]:
    return [problem["code"] for problem in answer["problems"]]


def test_a_fix_changes_what_validate_fixes_and_compares_with_the_last_commit(
    operate: Operations,
) -> None:
    committed = (operate.root / MANIFEST).read_bytes()
    broken = misspell(operate.root)

    shown = operate("fix_toolset", toolset_id="app-builder", dry_run=True)
    assert (operate.root / MANIFEST).read_bytes() == broken
    assert (shown["solved"], shown["problems"], len(shown["fixed"])) == (2, [], 2)
    assert (shown["compared_with"], shown["authority"]) == ("commit", [])

    answer = operate("fix_toolset", toolset_id="app-builder", base=shown["base"])
    assert answer["diff"] == shown["diff"]
    assert (operate.root / MANIFEST).read_bytes() == committed


def test_a_file_that_changed_meanwhile_is_not_written(
    operate: Operations, monkeypatch: pytest.MonkeyPatch
) -> None:
    misspell(operate.root)
    shown = operate("fix_toolset", toolset_id="app-builder", dry_run=True)
    with (operate.root / MANIFEST).open("a") as file:
        file.write("# a note\n")
    request = {"toolset_id": "app-builder", "base": shown["base"]}
    update = {**request, "path": "toolset.yaml", "content": "id: x\n"}
    old = snapshot(operate.root)
    for name, fields in (("fix_toolset", request), ("update_toolset_file", update)):
        assert operate.error(name, **fields).code == "moved"
    assert snapshot(operate.root) == old

    # Also if it changes while the effect is computed: the bytes are compared under the lock.
    find = file_changes.restoring_command

    def edited_meanwhile(*args: Any) -> str:
        (operate.root / MANIFEST).write_text("id: theirs\n")
        return find(*args)

    monkeypatch.setattr(file_changes, "restoring_command", edited_meanwhile)
    base = operate("get_toolset_file", toolset_id="app-builder", path="toolset.yaml")["base"]
    assert operate.error("update_toolset_file", **update | {"base": base}).code == "moved"
    assert (operate.root / MANIFEST).read_text() == "id: theirs\n"


def test_only_texts_of_the_toolset_are_read_and_written(operate: Operations) -> None:
    folder = operate.root / "toolsets/app-builder"
    outside = operate.root.parent / "outside.py"
    outside.write_text("secret = 1\n")
    (folder / "tools/link.py").symlink_to(outside)
    (folder / "linked").symlink_to(operate.root.parent)
    (folder / "data.bin").write_bytes(b"\xff\xfe\0")
    base = sha256(outside.read_bytes()).hexdigest()
    for path, code in {
        "tools/link.py": "unknown_file",
        "linked/outside.py": "unknown_file",
        "../../../outside.py": "unknown_file",
        str(outside): "unknown_file",
        "data.bin": "not_editable",
    }.items():
        file = {"toolset_id": "app-builder", "path": path}
        assert operate.error("get_toolset_file", **file).code == code
        change = {**file, "content": "x", "base": base}
        assert operate.error("update_toolset_file", **change).code == code
    assert outside.read_text() == "secret = 1\n"
    registered = {"toolset_id": "registered", "path": "forecast.yaml"}
    assert operate.error("get_toolset_file", **registered).code in {"not_editable", "unknown_file"}


def test_an_imported_toolset_is_changed_only_by_who_says_so_and_its_grants_end(
    operate: Operations,
) -> None:
    operate("add_grant", toolset_id="theirs", kind="unsandboxed")
    file = {"toolset_id": "theirs", "path": "a.py"}
    base = operate("get_toolset_file", **file)["base"]
    request = {**file, "content": "def add() -> int:\n    return 2\n", "base": base}
    old = snapshot(operate.root)

    assert operate.error("update_toolset_file", **request).code == "imported_toolset"
    assert snapshot(operate.root) == old

    shown = operate("update_toolset_file", **request, dry_run=True)
    assert shown["imported"]
    assert any(
        "its files have changed since the grant" in one["message"] for one in shown["authority"]
    )

    operate("update_toolset_file", **request, local_change=True)
    assert [*operate("get_toolset", toolset_id="theirs")["ended"]] == ["unsandboxed"]
    assert [one["path"] for one in operate("diff_toolset", toolset_id="theirs")["files"]] == [
        "a.py"
    ]


def test_a_page_shows_the_results_of_examples_and_of_calls(operate: Operations) -> None:
    page = {"toolset_id": "data-lab", "path": "artifacts/chart.html"}
    assert operate("list_page_examples", **page)["examples"] == []
    operate.commit("c1", **{"sales.csv": "day,sold\n2026-01-01,3\n"})
    call = operate(
        "call_tool", chat_id="c1", tool_id="data-lab:summarize", args={"path": "sales.csv"}
    )
    (example,) = operate("list_page_examples", **page)["examples"]
    assert example["name"] == f"call {call['id']}"
    assert example["data"] == call["render_plan"]["config"]["data"]

    manifest = operate.root / "toolsets/data-lab/toolset.yaml"
    text = manifest.read_text()
    manifest.write_text(
        text.replace(
            "        args: {path: sales.csv, by: day}\n",
            "        args: {path: sales.csv, by: day}\n        expected: {rows: 7}\n",
        )
    )
    first = operate("list_page_examples", **page)["examples"][0]
    assert (first["name"], first["data"]["rows"]) == ("example 1", 7)
