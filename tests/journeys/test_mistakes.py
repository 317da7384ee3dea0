"""The mistakes that people make first, and what they read then."""

from __future__ import annotations

from pathlib import Path

import pytest

from covalt_git.runtime import sandbox
from tests.journeys.terminal import Terminal


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory, checkout_scripts: Path) -> Terminal:
    """A terminal in a project with a chat that has a file; what is refused there changes nothing."""
    terminal = Terminal(tmp_path_factory.mktemp("settled"), checkout_scripts, forked=True)
    terminal.covalt("init", "demo")
    project = terminal.at(terminal.folder / "demo")
    project.covalt("chat", "new", "--id", "c1")
    project.covalt("chat", "upload", "c1", "covalt.yaml")
    return project


def test_a_typo_in_a_manifest_is_named_with_its_place_and_the_others_work_on(
    project: Terminal,
) -> None:
    manifest = project.folder / "toolsets/app-builder/toolset.yaml"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace("entrypoint: tools.files:read_file", "entrypont: x"))

    said = project.covalt("validate", code=1)

    line = text[: text.index("entrypoint: tools.files:read_file")].count("\n") + 1
    assert f"toolsets/app-builder/toolset.yaml:{line}:5: CG201" in said
    assert "unknown key 'entrypont'" in said
    assert "write 'entrypoint'" in said
    project.covalt("chat", "new", "--id", "c1")
    project.covalt("chat", "upload", "c1", "toolsets/data-lab/assets/weather.csv")
    project.covalt("call", "c1", "data-lab:report", "--arg", "path=weather.csv")
    refused = project.covalt("call", "c1", "app-builder:read_file", "{}", code=1)
    assert "the toolset 'app-builder' has errors" in refused


def test_a_broken_toolset_keeps_its_last_good_rows(project: Terminal) -> None:
    before = project.json("tool", "list")["groups"]
    (project.folder / "toolsets/data-lab/toolset.yaml").write_text("tools: [", encoding="utf-8")

    after = project.json("tool", "list")["groups"]

    before_ids, after_ids = (
        [tool["tool_id"] for group in found for tool in group["tools"]] for found in (before, after)
    )
    assert after_ids == before_ids
    assert {group["id"] for group in after if not group["sound"]} == {"data-lab"}
    assert {tool["broken"] for group in after for tool in group["tools"]} == {True, False}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param(("chat", "show", "c2"), "no chat 'c2'\n  hint: did you mean 'c1'?", id="chat"),
        pytest.param(
            ("chat", "checkout", "c1", "mian"),
            "no branch 'mian'\n  hint: did you mean 'main'?",
            id="branch",
        ),
        pytest.param(
            ("call", "c1", "app-builder:wite_file"),
            "no tool 'app-builder:wite_file'\n  hint: did you mean 'app-builder:write_file'?",
            id="tool",
        ),
        pytest.param(
            ("call", "c1", "write_file"),
            "no tool 'write_file'\n  hint: did you mean 'app-builder:write_file'?",
            id="tool-without-toolset",
        ),
        pytest.param(("chat", "show", "c1", "feed"), "no manifest 'feed'", id="manifest"),
        pytest.param(
            ("toolset", "show", "app-bilder"), "did you mean 'app-builder'?", id="toolset"
        ),
        pytest.param(("--role", "dev", "tool", "list"), "no role 'dev'", id="role"),
    ],
)
def test_an_unknown_name_gets_the_nearest_known_one(
    settled: Terminal, command: tuple[str, ...], said: str
) -> None:
    assert said in settled.covalt(*command, code=1)


def test_wrong_arguments_are_all_named_with_their_places(project: Terminal) -> None:
    project.covalt("chat", "new", "--id", "c1")

    said = project.covalt("call", "c1", "app-builder:write_file", '{"path": 3}', code=1)

    assert "$.path: invalid_arguments must be a text, not an integer" in said
    assert "$: invalid_arguments 'content' is missing" in said
    assert project.json("chat", "log", "c1")["manifests"] == []


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("call", "c1", "app-builder:write_file", '{"path": '), id="not-json"),
        pytest.param(("call", "c1", "app-builder:write_file", "[1]"), id="not-an-object"),
        pytest.param(("call", "c1", "app-builder:write_file", "--arg", "x"), id="no-value"),
        pytest.param(("chat", "upload", "c1", "nowhere.txt"), id="no-file"),
        pytest.param(("chat", "upload", "c1"), id="nothing-to-upload"),
        pytest.param(("chat", "new", "--ident", "x"), id="unknown-option"),
        pytest.param(("chatt",), id="unknown-command"),
        pytest.param(("validate", "nowhere"), id="no-path"),
    ],
)
def test_a_wrong_call_exits_with_2(settled: Terminal, command: tuple[str, ...]) -> None:
    settled.covalt(*command, code=2)


def test_outside_of_a_project_the_way_to_make_one_is_told(terminal: Terminal) -> None:
    said = terminal.covalt("tool", "list", code=2)

    assert "hint: covalt-git init demo && cd demo" in said


def test_init_twice_changes_nothing(project: Terminal) -> None:
    (project.folder / "covalt.yaml").write_text("version: 1 # mine\n", encoding="utf-8")

    project.covalt("init", ".", code=1)

    assert (project.folder / "covalt.yaml").read_text(encoding="utf-8") == "version: 1 # mine\n"


def test_a_broken_covalt_yaml_stops_everything_but_validate(project: Terminal) -> None:
    (project.folder / "covalt.yaml").write_text("version: 1\nroels: {}\n", encoding="utf-8")

    assert "covalt.yaml:2:1: CG201 unknown key 'roels'" in project.covalt("validate", code=1)
    assert "covalt.yaml cannot be used" in project.covalt("tool", "list", code=1)


def test_an_error_under_json_is_the_one_error_shape(project: Terminal) -> None:
    import json  # noqa: PLC0415

    done = project.run("covalt-git", "chat", "show", "nope", "--json")

    assert done.returncode == 1
    assert done.stdout == ""
    shape = json.loads(done.stderr)
    assert set(shape) == {"error", "error_description", "hint", "problems"}
    assert shape["error"] == "unknown_chat"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param('raise ValueError("no such row")', "tool_raised", id="raises"),
        pytest.param("import time; time.sleep(1000)", "limit_time", id="hangs"),
        pytest.param(
            "import sys\n    while True: sys.stdout.write('x' * 100000)",
            "limit_output",
            id="prints-a-gigabyte",
        ),
        pytest.param('return {"x": float("nan")}', "bad_result", id="result-not-json"),
        pytest.param(
            "import shutil; shutil.rmtree(workspace)",
            "workspace_deleted" if sandbox.level() == "process" else "tool_raised",
            id="deletes-workspace",
        ),
        pytest.param("import os; os.kill(os.getpid(), 9)", "tool_died", id="dies"),
    ],
)
def test_a_tool_that_misbehaves_is_an_error_of_its_call_and_the_chat_works_on(
    project: Terminal, body: str, code: str
) -> None:
    _write_tool(project.folder, body)
    project.covalt("chat", "new", "--id", "c1")
    project.covalt("chat", "upload", "c1", "covalt.yaml")

    call = project.json("call", "c1", "bad:run", code=1)

    assert call["status"] == "error"
    assert call["error"].startswith(f"{code}: ")
    assert project.json("chat", "log", "c1")["manifests"][0]["source_ref"] == call["id"]
    after = project.json(
        "call", "c1", "app-builder:write_file", '{"path": "a.txt", "content": "a"}'
    )
    assert after["status"] == "success"
    assert project.git("-C", "data/chats/c1/store.git", "fsck", "--strict") == ""


def _write_tool(root: Path, body: str) -> None:
    tools = root / "toolsets/bad/tools"
    tools.mkdir(parents=True)
    (tools / "run.py").write_text(
        f"from pathlib import Path\n\n\ndef run(workspace: Path):\n    {body}\n", encoding="utf-8"
    )
    (root / "toolsets/bad/toolset.yaml").write_text(
        "id: bad\nname: Bad\nversion: '1'\n"
        "tools:\n- {id: run, entrypoint: 'tools.run:run', limits: {timeout_s: 2, output_mb: 1}}\n",
        encoding="utf-8",
    )
